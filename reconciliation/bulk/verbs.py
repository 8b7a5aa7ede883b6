"""What can be done in bulk: to jobs, items or cases, by whom, and how it is done to one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Q

from access.roles import Role
from dispatch import reversals
from dispatch.models import Operation
from dispatch.states import OperationState
from reconciliation.actions.compensating import CannotCompensate, compensate_inside
from reconciliation.actions.working import operator
from reconciliation.bulk import answers
from reconciliation.kinds import VerbName
from reconciliation.models import Bulk, BulkEntry
from workflows.actions.cancel import cancel_job_inside
from workflows.actions.redrive import redrive_job_inside
from workflows.actions.retry import fail_job_inside, grant_attempts_inside
from workflows.actions.skip import skip_item_inside
from workflows.states import BEFORE_SENDING, ENDED, STUCK_ITEM_STATES, JobState


class BulkVerb(StrEnum):
    """Stored in bulks, and what the command is given."""

    GRANT = "grant"
    SKIP = "skip"
    REDRIVE = "redrive"
    GIVE_UP = "give-up"
    CANCEL = "cancel"
    LOOK_UP = "look-up"
    NOT_APPLIED = "not-applied"
    SEND_AGAIN = "send-again"
    SECOND = "second"
    TAKE = "take"
    RELEASE = "release"
    COMPENSATE = "compensate"


Act = Callable[[Bulk, BulkEntry, datetime], str | None]
"""Does it to one; what it says is kept with its result."""


@dataclass(frozen=True, slots=True)
class Terms:
    """One verb. `states`: of the items or jobs that it can be done to. `by_version`: any news of a job leaves it alone."""

    title: str
    things: str
    sentence: str
    role: Role
    states: tuple[str, ...]
    act: Act
    of_items: bool = False
    wants_attempts: bool = False
    by_version: bool = False
    cases: Callable[[], Q] | None = None
    """For what is done to open cases: which of them it can be done to."""

    calls: bool = False
    """It asks a receiver, so it is done outside of any transaction, several at a time; its result is written after it."""

    applied: bool = False
    """Only jobs of which something was applied."""

    tells_fates: bool = False
    """What became of each operation is told beside the result."""

    @property
    def one_thing(self) -> str:
        return self.things.removesuffix("s")


def _by(bulk: Bulk) -> int:
    assert bulk.confirmed_by_id is not None
    return bulk.confirmed_by_id


def _item(entry: BulkEntry) -> int:
    assert entry.item_id is not None
    return int(entry.item_id)


def _grant(bulk: Bulk, entry: BulkEntry, now: datetime) -> None:
    grant_attempts_inside(
        item_id=_item(entry), person_id=_by(bulk), attempts=bulk.attempts, reason=bulk.reason, bulk=bulk.pk
    )


def _skip(bulk: Bulk, entry: BulkEntry, now: datetime) -> None:
    skip_item_inside(item_id=_item(entry), person_id=_by(bulk), reason=bulk.reason, now=now, bulk=bulk.pk)


def _redrive(bulk: Bulk, entry: BulkEntry, now: datetime) -> None:
    redrive_job_inside(
        job_id=entry.job_id,
        person_id=_by(bulk),
        attempts=bulk.attempts,
        reason=bulk.reason,
        now=now,
        bulk=bulk.pk,
    )


def _give_up(bulk: Bulk, entry: BulkEntry, now: datetime) -> None:
    fail_job_inside(job_id=entry.job_id, person_id=_by(bulk), reason=bulk.reason, bulk=bulk.pk)


def _cancel(bulk: Bulk, entry: BulkEntry, now: datetime) -> None:
    cancel_job_inside(job_id=entry.job_id, person_id=_by(bulk), reason=bulk.reason, now=now, bulk=bulk.pk)


def _compensate(bulk: Bulk, entry: BulkEntry, now: datetime) -> None:
    """All that is left of each applied operation, the last one first: what was hardest to reverse comes back first."""
    actor = operator(_by(bulk))
    applied = Operation.objects.filter(job=entry.job_id, state=OperationState.CONFIRMED)
    said = ""
    asked = 0
    for operation in applied.order_by("-proposed__proposal_id", "-ordinal"):
        if said := reversals.why_not(operation):
            continue
        compensate_inside(
            operation_id=operation.pk,
            actor=actor,
            amount="",
            reason=bulk.reason,
            key=f"bulk {bulk.pk}",
            now=now,
            bulk=bulk.pk,
        )
        asked += 1
    if not asked:
        raise CannotCompensate(said or "Nothing of it is known to have been applied.")


_STOPPED = tuple(s.value for s in STUCK_ITEM_STATES)
_OPEN = (*(s.value for s in BEFORE_SENDING), JobState.SUBMITTED.value, JobState.NEEDS_RECONCILIATION.value)

TERMS: dict[BulkVerb, Terms] = {
    BulkVerb.GRANT: Terms(
        "Try stopped items again",
        "items",
        "Grants more attempts. Everything that is saved stays saved.",
        Role.OPERATOR,
        _STOPPED,
        _grant,
        of_items=True,
        wants_attempts=True,
    ),
    BulkVerb.SKIP: Terms(
        "Go on without stopped items",
        "items",
        "Leaves them out of what later steps get, where their step allows it. You cannot approve what comes of it.",
        Role.OPERATOR,
        _STOPPED,
        _skip,
        of_items=True,
    ),
    BulkVerb.REDRIVE: Terms(
        "Redrive failed jobs",
        "jobs",
        "They go on from what was saved, where nothing of them was applied. You cannot approve what comes of it.",
        Role.OPERATOR,
        (JobState.FAILED.value,),
        _redrive,
        wants_attempts=True,
        by_version=True,
    ),
    BulkVerb.GIVE_UP: Terms(
        "Give jobs up",
        "jobs",
        "Ends them as failed, before anything was sent.",
        Role.OPERATOR,
        (JobState.RECEIVED.value, JobState.VALIDATED.value, JobState.READY_TO_COMMIT.value),
        _give_up,
        by_version=True,
    ),
    BulkVerb.CANCEL: Terms(
        "Cancel jobs",
        "jobs",
        "Ends them as cancelled; of what was sent already the outcome is found out first.",
        Role.ADMIN,
        _OPEN,
        _cancel,
        tells_fates=True,
    ),
    BulkVerb.COMPENSATE: Terms(
        "Compensate what jobs did",
        "jobs",
        "Starts a job for each change that was applied, which proposes to take it back. You cannot approve what comes of it.",
        Role.OPERATOR,
        tuple(s.value for s in ENDED),
        _compensate,
        by_version=True,
        applied=True,
        tells_fates=True,
    ),
}


TERMS |= {
    BulkVerb.LOOK_UP: Terms(
        "Look up at the receiver",
        "cases",
        "Asks each receiver what became of its request. Nothing changes there; an answer that proves something closes the case.",
        Role.OPERATOR,
        (),
        answers.ask,
        cases=lambda: answers.with_verb(VerbName.LOOK_UP),
        calls=True,
    ),
    BulkVerb.NOT_APPLIED: Terms(
        "Confirm as not applied, by look-up",
        "cases",
        "Only where the last look-up found nothing late enough to prove it. A second person confirms each; nothing is sent.",
        Role.OPERATOR,
        (),
        answers.ask_not_applied,
        cases=lambda: answers.with_verb(VerbName.CONFIRM_NOT_APPLIED),
        by_version=True,
    ),
    BulkVerb.SEND_AGAIN: Terms(
        "Send again with the same keys",
        "cases",
        "Each with its own bytes and key, where the receiver still recognises it; elsewhere a second person is asked.",
        Role.OPERATOR,
        (),
        answers.send_again,
        cases=lambda: answers.with_verb(VerbName.RESUBMIT),
        by_version=True,
    ),
    BulkVerb.SECOND: Terms(
        "Second what was asked for",
        "cases",
        "Carries out what another person asked a second person for. Nobody seconds what they asked for themselves.",
        Role.OPERATOR,
        (),
        answers.second,
        cases=answers.asked_for,
        by_version=True,
    ),
    BulkVerb.TAKE: Terms(
        "Take cases",
        "cases",
        "They are yours from then on.",
        Role.OPERATOR,
        (),
        answers.take,
        cases=Q,
        by_version=True,
    ),
    BulkVerb.RELEASE: Terms(
        "Lift holds",
        "cases",
        "Lets workers claim again the jobs that the machine holds; what a person holds is left alone and listed. After a restore,"
        " ask the receivers first: each may have been sent since.",
        Role.OPERATOR,
        (),
        answers.release,
        cases=answers.of_held_jobs,
        by_version=True,
    ),
}


def terms_of(verb: str) -> Terms:
    """The terms of a stored verb."""
    return TERMS[BulkVerb(verb)]
