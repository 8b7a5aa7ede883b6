"""What a handler raises to say how it failed; anything else is classified by rule (`engine/outcomes.py`)."""

from __future__ import annotations

from dataclasses import dataclass


class Permanent(Exception):
    """Trying again cannot help. The item stops and a case opens; everything else that was saved stays."""


class Retryable(Exception):
    """Trying again may help. `retry_after` in seconds overrides the schedule, up to the stage's cap on it."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with a submission: the field's path, and a sentence that says what to do."""

    field: str
    message: str


class Invalid(Exception):
    """The workflow's own validation refuses the input: the job goes to FAILED with these reasons."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("; ".join(f"{p.field}: {p.message}" for p in problems))
        self.problems = problems
