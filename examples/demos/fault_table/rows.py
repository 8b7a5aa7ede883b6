"""One row of the table, and which promise it breaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatch.classification import Outcome
from dispatch.models import Submission
from examples.demos.fault_table.faults import Fault
from examples.demos.fault_table.kinds import Kind
from workflows.states import JobState

IN_DOUBT = (Outcome.UNKNOWN, Outcome.PENDING, Outcome.IN_PROGRESS, Outcome.KEY_MISMATCH)


@dataclass(frozen=True)
class Row:
    """What was seen. `sent`: how each send ended, in order, and `statuses` what it was answered, None where no answer was read;
    `requests`: those that arrived; `broken`: a sentence, or ""."""

    kind: str
    fault: str
    title: str
    sent: tuple[str, ...]
    lookups: int
    state: str
    effects: int
    requests: int
    broken: str = ""
    statuses: tuple[int | None, ...] = ()


def row_of(
    fault: Fault, kind: Kind, state: str, sends: Sequence[Submission], *, lookups: int, effects: int, requests: int
) -> Row:  # fmt: skip
    """The row of a job that has come to rest in this state."""
    sent = tuple(s.outcome for s in sends)
    broken = _broken(kind, state, sends, effects, requests)
    statuses = tuple(s.status for s in sends)
    return Row(kind.name, fault.name, fault.title, sent, lookups, state, effects, requests, broken, statuses)


def _broken(kind: Kind, state: str, submissions: Sequence[Submission], effects: int, requests: int) -> str:
    if effects > 1:
        return f"there are {effects} effects"
    if not kind.recognises and _sent_after_doubt(submissions):
        return "it was sent again after doubt"
    if any(300 <= (s.status or 0) < 400 for s in submissions[:-1]):
        return "it was sent again after a redirect"
    if requests > sum(s.may_have_been_sent_at is not None for s in submissions):
        return "a request left without a mark"
    if state == JobState.CONFIRMED and not effects:
        return "it is CONFIRMED, and nothing was done"
    if state not in (JobState.CONFIRMED, JobState.NEEDS_RECONCILIATION) and effects:
        return f"it is {state}, and it was done"
    return ""


def _sent_after_doubt(submissions: Sequence[Submission]) -> bool:
    first = next((s.number for s in submissions if s.outcome in IN_DOUBT), None)
    return first is not None and any(
        s.number > first and s.may_have_been_sent_at is not None for s in submissions
    )
