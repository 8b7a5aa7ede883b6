"""What a handler is given beside its input."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from workflows.authoring import asking
from workflows.authoring.asking import LONGEST_COMPLETION, M, Provider

LONGEST_ANSWER = 20_000


@dataclass(slots=True)
class Usage:
    """What one attempt used, added up over the calls it recorded."""

    route: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cost: Decimal = Decimal(0)
    answer: str = ""
    """What the model said last, for whoever looks at a failed attempt."""


@dataclass(frozen=True, slots=True)
class Ctx:
    """One attempt of one work item, as its handler sees it.

    `request_key` stays the same over the attempts of one item, for providers that can use it; `attempt` counts from 1.
    """

    tenant_id: int
    job_id: int
    reference: str
    item_key: str
    attempt: int
    request_key: str
    usage: Usage = field(default_factory=Usage)
    provider: Provider | None = field(default=None, repr=False)
    """Who answers `ask`; the installation's provider where there is none."""

    def record(
        self,
        *,
        route: str,
        tokens_in: int = 0,
        tokens_out: int = 0,
        cost: Decimal = Decimal(0),
        answer: str = "",
    ) -> None:
        """Say what a call cost, whatever client library made it. Kept with the attempt, also when that fails.

        `answer`: what the model said, before it is judged. The last one is kept if the attempt fails, up to 20,000
        characters, and never otherwise.
        """
        self.usage.route = route
        self.usage.tokens_in += tokens_in
        self.usage.tokens_out += tokens_out
        self.usage.cost += cost
        self.usage.answer = answer[:LONGEST_ANSWER] or self.usage.answer

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
