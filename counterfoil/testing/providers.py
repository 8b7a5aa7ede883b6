"""Models that answer by script: in order, or by a function of the prompt."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

from pydantic import BaseModel

from counterfoil.testing.memory import Unscripted
from workflows.authoring import Completion, Prompt


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with what it used. `says`: text as a model wrote it, or a value that becomes its JSON.

    Without a `cost` it is computed as in an installation, from the prices that are known. `unfinished`: why the answer
    was cut short.
    """

    says: BaseModel | dict[str, Any] | list[Any] | str
    tokens_in: int = 0
    tokens_out: int = 0
    cost: Decimal | None = None
    unfinished: str = ""

    @property
    def text(self) -> str:
        """What the step is given to read."""
        if isinstance(self.says, BaseModel):
            return self.says.model_dump_json()
        return self.says if isinstance(self.says, str) else json.dumps(self.says, ensure_ascii=False)


Says = Reply | BaseModel | dict[str, Any] | list[Any] | str | BaseException
"""What a script can answer: a reply, what it says, or an error that the call raises."""


@dataclass(frozen=True, slots=True)
class Call:
    """One question that was asked, and what came of it. `failed`: the error's class, empty where there was none."""

    prompt: Prompt
    text: str = ""
    failed: str = ""


class ProviderFailed(Exception):
    """A call that failed with an HTTP status, as client libraries tell it; without one nothing answered in time."""

    def __init__(self, message: str, *, status: int | None = None, retry_after: str = "") -> None:
        super().__init__(message)
        self.status_code = status
        self.response = SimpleNamespace(
            status_code=status, headers={"retry-after": retry_after} if retry_after else {}
        )


def busy(*, retry_after: float | str = "") -> ProviderFailed:
    """429, with a Retry-After in seconds or as a date where one is given. It retries."""
    return ProviderFailed("429: too many requests", status=429, retry_after=str(retry_after))


def refused(status: int = 400) -> ProviderFailed:
    """An HTTP status; most from 400 to 499 stop the item, those from 500 on retry."""
    return ProviderFailed(f"{status}: refused", status=status)


def timeout() -> ProviderFailed:
    """No answer in time. It retries."""
    return ProviderFailed("no answer in time")


class Script:
    """A model that answers as it is told. Give it the answers in order, or one function of the prompt.

        Script(Kind(kind="travel"), busy(retry_after=5), Kind(kind="office"))
        Script(lambda prompt: Kind(kind="travel" if "hotel" in prompt.text else "office"))

    `calls` holds every question. A question more than there are answers fails the test (`Unscripted`).
    """

    def __init__(self, *answers: Says | Callable[[Prompt], Says]) -> None:
        functions = [a for a in answers if callable(a)]
        if functions and len(answers) > 1:
            raise TypeError("Script: give answers in order, or one function of the prompt")
        self._by = functions[0] if functions else None
        self._answers: list[Says] = [a for a in answers if not callable(a)]
        self.calls: list[Call] = []

    def complete(self, prompt: Prompt) -> Completion:
        """The next answer. Called by `Ctx.ask`."""
        says = self._next(prompt)
        if isinstance(says, BaseException):
            self.calls.append(Call(prompt, failed=type(says).__name__))
            raise says
        reply = says if isinstance(says, Reply) else Reply(says)
        self.calls.append(Call(prompt, text=reply.text))
        return Completion(
            text=reply.text,
            tokens_in=reply.tokens_in,
            tokens_out=reply.tokens_out,
            cost=reply.cost,
            unfinished=reply.unfinished,
        )

    @property
    def prompts(self) -> list[str]:
        """The text of every question, in order."""
        return [call.prompt.text for call in self.calls]

    def _next(self, prompt: Prompt) -> Says:
        if self._by is not None:
            try:
                return self._by(prompt)
            except AssertionError as wrong:
                raise Unscripted(
                    f"The script does not accept this question: {wrong}\n{prompt.text}"
                ) from wrong
        if not self._answers:
            asked = f"{len(self.calls) + 1}. question has no answer in the script"
            raise Unscripted(f"The {asked}: {prompt.text[:500]}")
        return self._answers.pop(0)
