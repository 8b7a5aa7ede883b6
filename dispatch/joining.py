"""The state of an operation as the join of its submissions, and of a job as that of its operations. Pure.

A definite answer to send n never settles send n-1, so one unknown among them keeps the whole unknown until something
says "applied". Submissions before a proof of absence no longer count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dispatch.classification import Outcome
from dispatch.states import NextStep, OperationState
from workflows.states import JobState

S = OperationState
_AUTOMATIC = (NextStep.LOOK_UP.value, NextStep.RESUBMIT.value)

_FIRST_OF: tuple[tuple[tuple[Outcome, ...], OperationState], ...] = (
    ((Outcome.APPLIED,), OperationState.CONFIRMED),
    ((Outcome.CONFLICTED,), OperationState.CONFLICTED),
    ((Outcome.KEY_MISMATCH, Outcome.UNKNOWN, Outcome.IN_PROGRESS), OperationState.UNKNOWN),
    ((Outcome.PENDING,), OperationState.SUBMITTED),
    ((Outcome.REFUSED,), OperationState.REFUSED),
)


def joined(outcomes: Iterable[str]) -> OperationState:
    """What all closed submissions together say; PREPARED where every one of them definitely did nothing."""
    seen = set(outcomes)
    for some, state in _FIRST_OF:
        if seen.intersection(some):
            return state
    return OperationState.PREPARED


def joined_with_told(state: OperationState, told: Collection[str], *, one_effect: bool) -> OperationState:
    """The join, and what the receiver told by a callback or a look-up while the last send was open. Whichever came first, it is the same.

    `one_effect`: every send was one request to the receiver, so that "it failed" speaks of all of them.
    """
    if "differs" in told or "duplicate" in told or {"applied", "failed"} <= set(told):
        return S.CONFLICTED
    if "applied" in told:
        return S.CONFLICTED if state is S.CONFLICTED else S.CONFIRMED
    if "failed" not in told or not one_effect or state is S.CONFLICTED:
        return state
    return S.CONFLICTED if state is S.CONFIRMED else S.REFUSED


@dataclass(frozen=True, slots=True)
class Standing:
    """One operation as the derivation sees it."""

    state: str
    next_step: str = ""


@dataclass(frozen=True, slots=True)
class Derived:
    """Where the job belongs, and the journal's event for going there."""

    state: JobState
    event: str


def derive(operations: Sequence[Standing], *, cancelled: bool) -> Derived:
    """Where a job with these operations belongs. Pure; `cancelled`: a cancel was asked for.

    Operations that stand alike count as one: it matters how they stand, not how many they are.
    """
    doubt = [o for o in operations if _in_doubt(o)]
    if doubt:
        conflicted = any(o.state == S.CONFLICTED for o in doubt)
        event = "outcome.conflicted" if conflicted else "outcome.unknown"
        return Derived(JobState.NEEDS_RECONCILIATION, event)
    if any(_in_flight(o) for o in operations):
        return Derived(JobState.SUBMITTED, "operation.under_way")
    applied = [o for o in operations if o.state == S.CONFIRMED]
    if applied and len(applied) == len(operations):
        return Derived(JobState.CONFIRMED, "outcome.confirmed")
    to_go = any(_to_go(o) for o in operations)
    if applied and to_go:
        return Derived(JobState.SUBMITTED, "operation.under_way")
    if to_go:
        return Derived(JobState.READY_TO_COMMIT, "submission.not_applied")
    if cancelled:
        return Derived(JobState.CANCELLED, "job.cancelled")
    if applied:
        return Derived(JobState.NEEDS_RECONCILIATION, "outcome.partial")
    return Derived(JobState.FAILED, "outcome.not_applied")


def _in_doubt(o: Standing) -> bool:
    return o.state == S.CONFLICTED or (o.state == S.UNKNOWN and o.next_step not in _AUTOMATIC)


def _in_flight(o: Standing) -> bool:
    return o.state == S.SUBMITTED or (o.state in (S.UNKNOWN, S.NOT_APPLIED) and o.next_step in _AUTOMATIC)


def _to_go(o: Standing) -> bool:
    return o.state == S.PREPARED and o.next_step != NextStep.NONE
