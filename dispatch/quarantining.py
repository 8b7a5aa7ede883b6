"""Operations out of a backup: what this database takes for unsent may have been sent after the backup was made.

So each that is not settled counts as possibly sent, under the key that it has: nothing is sent for it again before the
receiver was asked, its window allows it, or a person has answered its case. The sweep after a restore does this to all of
them at once (`restoring.py`); what it could not reach is done here before a send, and the mark refuses the rest.
"""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError

from access.roles import Actor
from access.switches import Restored, switches_of
from approvals.models import Proposal
from approvals.standing import mark_sent
from dispatch import locks, outcomes
from dispatch.classification import Outcome, Reading
from dispatch.deriving import derive_job
from dispatch.models import Operation, Submission
from dispatch.moving import RecordBusy, move, plan
from dispatch.proofs import MACHINE
from dispatch.states import IN_DOUBT_OR_FLIGHT, NextStep, OperationState
from workflows import journal, machines
from workflows.models import Job

S = OperationState
OPEN = (S.PREPARED, S.SUBMITTED, S.UNKNOWN, S.NOT_APPLIED)
EVENT = "operation.quarantined"


def is_due(operation: Operation, proposal: Proposal, restored: Restored | None) -> bool:
    """Whether it may have been sent by what the backup knows nothing of, and nothing was done about that yet."""
    if restored is None or operation.state not in OPEN or proposal.frozen_at > restored.at:
        return False
    return operation.quarantined_at is None or operation.quarantined_at < restored.at


def knows_nothing_of(submission: Submission) -> bool:
    """Whether an open submission came out of a backup: how it went on is not known here."""
    restored = switches_of(submission.tenant_id).restored
    return restored is not None and submission.opened_at <= restored.at


def quarantine(*, job: Job, proposal: Proposal, operation: Operation, actor: Actor, now: datetime) -> None:
    """Take it as possibly sent since it was made: `operation.quarantined`, its next step planned anew, its job derived.

    The caller holds job, proposal and operation. Raises RecordBusy where another operation on the record is in doubt; that
    one has to be settled first.
    """
    restored = switches_of(job.tenant_id).restored
    assert restored is not None
    # What waited for its approval in the backup is made anew: it may have been made, and sent, since it was frozen.
    made_at = operation.created_at if operation.created_at <= restored.at else proposal.frozen_at
    first = operation.first_may_have_been_sent_at or made_at
    columns = {
        "quarantined_at": max(locks.database_clock(), restored.at),
        "first_may_have_been_sent_at": first,
        "resubmit_safe_until": outcomes.safe_until(operation, first),
        "lookups": 0,
    }
    evidence = {
        "operation": operation.label,
        "operation_id": operation.pk,
        "state": operation.state,
        "known_until": restored.known_until.isoformat(),
    }
    plan(operation, NextStep(operation.next_step), operation.next_step_at, **columns)
    journal.record(job=job, event=EVENT, actor=actor, evidence=evidence)
    mark_sent(proposal, now)
    submission = locks.lock_open_submission(operation)
    if submission is not None:
        outcomes.close_submission(
            job=job, operation=operation, submission=submission, seen=None, actor=actor, now=now,
            reading=Reading(Outcome.UNKNOWN, "it was open when the backup was made"),
        )  # fmt: skip
    elif operation.state != S.SUBMITTED:
        _doubt(job, operation, now)
        derive_job(job, actor, now)
    if operation.next_step:
        machines.ring(job=job, machine=MACHINE, key=str(operation.pk), at=operation.next_step_at)


def is_busy(operation: Operation) -> bool:
    """Whether another operation on the same record is in flight or in doubt."""
    others = Operation.objects.filter(
        receiver=operation.receiver_id, account=operation.account, record=operation.record,
        state__in=IN_DOUBT_OR_FLIGHT,
    )  # fmt: skip
    return others.exclude(pk=operation.pk).exists()


def _doubt(job: Job, operation: Operation, now: datetime) -> None:
    step = outcomes.decide(job, operation, outcomes.counting(operation), now)
    note = f"it may have been sent after the backup; {step.why}"[:500]
    if operation.state != S.UNKNOWN and is_busy(operation):
        raise RecordBusy
    try:
        move(operation, S.UNKNOWN, now, next_step=step.kind.value, next_step_at=step.at, fate_note=note)
    except IntegrityError as taken:
        raise RecordBusy from taken
