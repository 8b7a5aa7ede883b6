"""What a handler is given beside its input."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from workflows.authoring import asking, files
from workflows.authoring.asking import LONGEST_COMPLETION, M, Provider
from workflows.authoring.files import File, Reader
from workflows.authoring.usage import Usage
from workflows.pricing import Used


@dataclass(frozen=True, slots=True)
class Ctx:
    """One attempt of one work item, as its handler sees it.

    `request_key` stays the same over the attempts of one item, for providers that can use it; `attempt` counts from 1.
    `undoes`: in a compensation, the request key that its item was run with.
    """

    tenant_id: int
    job_id: int
    reference: str
    item_key: str
    attempt: int
    request_key: str
    undoes: str = ""
    usage: Usage = field(default_factory=Usage)
    provider: Provider | None = field(default=None, repr=False)
    """Who answers `ask`; the installation's provider where there is none."""
    reader: Reader | None = field(default=None, repr=False)
    """Who reads the files that the job's input names; the installation where there is none."""

    def record(
        self,
        *,
        route: str,
        tokens_in: int = 0,
        tokens_out: int = 0,
        tokens_cached: int = 0,
        tokens_cache_written: int = 0,
        tokens_reasoning: int = 0,
        cost: Decimal | None = None,
        answer: str = "",
    ) -> None:
        """Say what a call used, whatever client library made it. Kept with the attempt, also when that fails.

        `route`: the model, with its provider before it where the name alone is not enough. `tokens_cached` and
        `tokens_cache_written` are a part of `tokens_in`, `tokens_reasoning` of `tokens_out`. Without a `cost` it is
        computed from the prices that are known here; where none is, it counts as unknown. `answer`: what the model
        said, before it is judged; the last one is kept if the attempt fails, up to 20,000 characters, and never otherwise.
        """
        used = Used(
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            tokens_cached=tokens_cached,
            tokens_cache_written=tokens_cache_written,
            tokens_reasoning=tokens_reasoning,
        )
        self.usage.add(route, used, cost, answer)

    def read_file(self, digest: str) -> File:
        """A file that the job's input names, with its bytes. NoSuchFile, which stops the item, for any other."""
        return files.read(self.reader, self.tenant_id, self.job_id, digest)

    def ask(
        self,
        text: str,
        *,
        answer: type[M],
        model: str,
        system: str = "",
        longest_answer: int = LONGEST_COMPLETION,
    ) -> M:
        """Ask a model, and get its answer as an `answer`; what it used is recorded. One call, at most one answer.

        `longest_answer` in tokens. Raises what retries or stops by the rules of errors: the client's own exceptions
        (time-outs, refused connections, statuses), Retryable for an answer that was cut short, pydantic's
        ValidationError for one of another shape.
        """
        return asking.ask(
            self, text, answer=answer, model=model, system=system, longest_answer=longest_answer
        )
