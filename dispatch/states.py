"""The states of an operation and how it may move. Imports nothing of ours; the database's trigger has the same table."""

from __future__ import annotations

from enum import StrEnum


class OperationState(StrEnum):
    """What is known of one intended effect."""

    PREPARED = "PREPARED"  # approved, never sent, or every send definitely did nothing and it may be sent
    SUBMITTED = "SUBMITTED"  # a submission is open, or the receiver has accepted and will confirm later
    CONFIRMED = "CONFIRMED"  # applied as approved, proven by a receipt or observation
    REFUSED = "REFUSED"  # the receiver said a definite no; nothing was applied
    NOT_APPLIED = "NOT_APPLIED"  # proven, or attested by two people, not to have been applied
    UNKNOWN = "UNKNOWN"  # bytes may have left and nobody knows what became of them
    CONFLICTED = "CONFLICTED"  # something was applied, but not what was approved
    WITHDRAWN = "WITHDRAWN"  # never sent, and will not be


S = OperationState
MOVES: frozenset[tuple[str, str]] = frozenset(
    {
        (S.PREPARED, S.SUBMITTED),
        (S.PREPARED, S.WITHDRAWN),
        (S.PREPARED, S.UNKNOWN),  # out of a backup only
        (S.SUBMITTED, S.PREPARED),
        (S.SUBMITTED, S.CONFIRMED),
        (S.SUBMITTED, S.REFUSED),
        (S.SUBMITTED, S.NOT_APPLIED),
        (S.SUBMITTED, S.UNKNOWN),
        (S.SUBMITTED, S.CONFLICTED),
        (S.UNKNOWN, S.SUBMITTED),
        (S.UNKNOWN, S.CONFIRMED),
        (S.UNKNOWN, S.CONFLICTED),
        (S.UNKNOWN, S.NOT_APPLIED),
        (S.UNKNOWN, S.REFUSED),
        (S.NOT_APPLIED, S.SUBMITTED),
        (S.NOT_APPLIED, S.CONFIRMED),
        (S.NOT_APPLIED, S.UNKNOWN),
        (S.CONFLICTED, S.CONFIRMED),
        (S.CONFLICTED, S.UNKNOWN),
        (S.REFUSED, S.UNKNOWN),
        (S.CONFIRMED, S.UNKNOWN),
        (S.CONFIRMED, S.CONFLICTED),
    }
)
IN_DOUBT_OR_FLIGHT = [S.SUBMITTED.value, S.UNKNOWN.value]
UNSETTLED = [S.SUBMITTED.value, S.UNKNOWN.value, S.CONFLICTED.value]
"""While one operation of a job is in one of these, the job cannot end."""

MAY_STAND = [S.SUBMITTED.value, S.UNKNOWN.value, S.CONFIRMED.value, S.CONFLICTED.value]
"""Something was written at the receiver, or may have been."""

WITHOUT_EFFECT = [S.REFUSED.value, S.NOT_APPLIED.value, S.WITHDRAWN.value]
SETTLED = (S.CONFIRMED, S.REFUSED, S.NOT_APPLIED, S.WITHDRAWN)


class NextStep(StrEnum):
    """What the machine does next with an operation that is not settled."""

    SEND = "send"  # the first send, or the next one after sends that definitely did nothing
    LOOK_UP = "look up"  # ask the receiver what became of it
    RESUBMIT = "resubmit"  # the same key and bytes again
    BLOCKED = "blocked"  # nothing, until a person has put right what stands in the way
    NONE = ""  # nothing: it is settled, stopped, or only evidence can move it
