"""The state of an operation as the join of its submissions. Pure.

A definite answer to send n never settles send n-1, so one unknown among them keeps the whole unknown until something
says "applied". Submissions before a proof of absence no longer count.
"""

from __future__ import annotations

from collections.abc import Iterable

from dispatch.classification import Outcome
from dispatch.states import OperationState

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
