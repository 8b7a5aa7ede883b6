"""What each kind of case is: who owns it, when it is due, whether its job waits for it, and what may be done.

One table, read by the hooks that open cases, by the actions and by the screen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from access.roles import Role
from reconciliation.models import CaseKind
from workflows.actions.undo import Undone


class VerbName(StrEnum):
    """What a person can do that answers a case's question, or asks it again. Stored in requests."""

    LOOK_UP = "look up"
    MATCH_LINE = "match statement line"
    CONFIRM_WITH_RECEIPT = "confirm with receipt"
    CONFIRM_NOT_APPLIED = "confirm not applied"
    RESUBMIT = "resubmit same key"
    ACCEPT_CONFLICT = "accept conflict"
    REOPEN = "reopen"
    COMPENSATE = "compensate"
    RETRY = "retry"
    CORRECT = "correct and retry"
    SKIP = "skip"
    REPROPOSE = "repropose"
    RUN_AGAIN = "run steps again"
    RELEASE = "release hold"
    MIGRATE = "migrate"
    GO_ON = "go on"
    RECORD_OUTCOME = "record outcome"
    RECORD_UNDONE = "record undone"
    STOP_HERE = "stop here"
    GIVE_UP = "give up"
    CANCEL = "cancel"
    SET_ASIDE = "set lines aside"


class Queue(StrEnum):
    """In which queue of the home page a case stands. Of what holds its job (HELD) it is the job that stands there."""

    UNRESOLVED = "unresolved outcomes"
    EXHAUSTED = "retry exhausted"
    HELD = "held jobs"
    CANCELLED_WITH_EFFECT = "cancelled with effects"
    UNCLAIMED = "unclaimed statement lines"
    TO_BE_CORRECTED = "to be corrected"


@dataclass(frozen=True, slots=True)
class Terms:
    """One kind's row. `verbs` are in order, safest first; `outcomes` are what "record outcome" may record."""

    due_after: timedelta
    verbs: tuple[VerbName, ...]
    owner: Role = Role.OPERATOR
    blocking: bool = True
    queue: Queue = Queue.TO_BE_CORRECTED
    outcomes: tuple[str, ...] = ()
    outlives_the_job: bool = False


_V = VerbName
_DOUBT = (_V.LOOK_UP, _V.MATCH_LINE, _V.CONFIRM_WITH_RECEIPT, _V.CONFIRM_NOT_APPLIED, _V.RESUBMIT)
_STUCK = (_V.RETRY, _V.CORRECT, _V.SKIP, _V.GIVE_UP, _V.CANCEL)
_CANNOT_SUCCEED = (_V.RETRY, _V.CORRECT, _V.SKIP, _V.REPROPOSE, _V.RUN_AGAIN, _V.GIVE_UP, _V.CANCEL)
_ASK_AGAIN = (_V.REPROPOSE, _V.RUN_AGAIN, _V.GIVE_UP)


def _hours(count: int) -> timedelta:
    return timedelta(hours=count)


KINDS: dict[CaseKind, Terms] = {
    CaseKind.UNKNOWN_OUTCOME: Terms(_hours(4), _DOUBT, queue=Queue.UNRESOLVED),
    CaseKind.CONFLICTED: Terms(_hours(4), (_V.LOOK_UP, _V.ACCEPT_CONFLICT), queue=Queue.UNRESOLVED),
    CaseKind.PARTIAL: Terms(
        _hours(8),
        (_V.LOOK_UP, _V.GO_ON, _V.STOP_HERE, _V.COMPENSATE, _V.RESUBMIT),
        queue=Queue.UNRESOLVED,
    ),
    CaseKind.CONFIRMATION_OVERDUE: Terms(_hours(24), _DOUBT, blocking=False, queue=Queue.UNRESOLVED),
    CaseKind.POSSIBLE_DUPLICATE: Terms(
        _hours(2),
        (_V.LOOK_UP, _V.RECORD_OUTCOME),
        blocking=False,
        queue=Queue.UNRESOLVED,
        outcomes=("applied once", "applied twice, reversed once", "applied twice, it stands"),
        outlives_the_job=True,
    ),
    CaseKind.RETRY_EXHAUSTED: Terms(_hours(8), _STUCK, queue=Queue.EXHAUSTED),
    CaseKind.PERMANENT_ERROR: Terms(_hours(8), _CANNOT_SUCCEED, queue=Queue.EXHAUSTED),
    CaseKind.REVISION_MISSING: Terms(
        _hours(4), (_V.RELEASE, _V.MIGRATE, _V.GIVE_UP, _V.CANCEL), queue=Queue.HELD
    ),
    CaseKind.DEADLINE_PASSED: Terms(_hours(4), (_V.RELEASE, _V.GIVE_UP, _V.CANCEL), queue=Queue.HELD),
    CaseKind.RESTORED: Terms(_hours(4), (_V.RELEASE, _V.GIVE_UP, _V.CANCEL), queue=Queue.HELD),
    # Nobody says that it is answered: it closes when the limit lets work through again. One a limit, at a job that waits.
    CaseKind.BUDGET_PASSED: Terms(_hours(4), (_V.CANCEL,), owner=Role.ADMIN, blocking=False),
    CaseKind.PROPOSAL_EXPIRED: Terms(_hours(24), _ASK_AGAIN),
    CaseKind.CHANGES_REQUESTED: Terms(_hours(24), _ASK_AGAIN),
    CaseKind.FACT_CHANGED: Terms(_hours(24), (_V.RUN_AGAIN, _V.REPROPOSE, _V.GIVE_UP)),
    # Nobody says that it is answered: it closes when enough people at work can sign, and not before.
    CaseKind.NO_APPROVER: Terms(_hours(8), (_V.CANCEL,), owner=Role.ADMIN),
    CaseKind.SEND_BLOCKED: Terms(_hours(4), (_V.GO_ON, _V.RETRY, _V.GIVE_UP, _V.CANCEL)),
    CaseKind.CANCELLED_WITH_EFFECT: Terms(
        _hours(24),
        (_V.LOOK_UP, _V.COMPENSATE, _V.RECORD_OUTCOME),
        blocking=False,
        queue=Queue.CANCELLED_WITH_EFFECT,
        outcomes=("the change stands", "the change was reversed elsewhere"),
        outlives_the_job=True,
    ),
    CaseKind.CONTRADICTED: Terms(
        _hours(4),
        (_V.LOOK_UP, _V.RECORD_OUTCOME, _V.COMPENSATE, _V.REOPEN),
        blocking=False,
        queue=Queue.UNRESOLVED,
        outcomes=("the evidence was mistaken", "the change stands", "the change was reversed elsewhere"),
        outlives_the_job=True,
    ),
    CaseKind.KEY_MISMATCH: Terms(
        _hours(2),
        (_V.LOOK_UP, _V.RECORD_OUTCOME),
        queue=Queue.UNRESOLVED,
        outcomes=("the key was used by somebody else", "the receiver was mistaken", "our fault, corrected"),
        outlives_the_job=True,
    ),
    CaseKind.SENT_DIFFERS: Terms(
        _hours(2),
        (_V.LOOK_UP, _V.RECORD_OUTCOME),
        queue=Queue.UNRESOLVED,
        blocking=False,
        outcomes=(
            "the receiver did what was approved",
            "the change was reversed elsewhere",
            "our fault, corrected",
        ),
        outlives_the_job=True,
    ),
    CaseKind.NOT_UNDONE: Terms(
        _hours(8),
        (_V.RETRY, _V.RECORD_UNDONE),
        blocking=False,
        outcomes=tuple(how.value for how in Undone),
        outlives_the_job=True,
    ),
    CaseKind.UNDELIVERABLE: Terms(
        _hours(24),
        (_V.RECORD_OUTCOME,),
        owner=Role.ADMIN,
        blocking=False,
        outcomes=("they were told otherwise", "it was sent again and arrived", "they need not be told"),
        outlives_the_job=True,
    ),
    # Of a statement, not of a job. Nobody says that it is answered: it closes with its last line (`unclaimed`).
    CaseKind.UNCLAIMED: Terms(_hours(24), (_V.SET_ASIDE,), blocking=False, queue=Queue.UNCLAIMED),
}


def kinds_in(queue: Queue) -> list[CaseKind]:
    """The kinds whose cases stand in a queue of the home page."""
    return [kind for kind, terms in KINDS.items() if terms.queue is queue]


def terms_of(kind: str) -> Terms:
    """The row of a kind."""
    return KINDS[CaseKind(kind)]
