"""Opening a submission: everything is looked at again under the locks, then intent is written before anything is sent.

A first send (and one after proof that nothing was applied) asks everything; the resubmission of an unknown operation
asks only for equal bytes, the window, hard policy and no cancel, since its first send may itself have moved the rest.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError

from access.roles import Actor, ActorKind
from access.statements import Asked, ahead, execute, insert
from access.switches import switches_of
from access.tenancy import acting
from approvals.blocking import key_of
from approvals.models import Proposal
from approvals.standing import (
    CheckResult,
    first_failure,
    mark_sent,
)
from dispatch import locks, outcomes, quarantining
from dispatch.connectors.seam import Sending
from dispatch.contracts import Contract
from dispatch.frozen import sending_of
from dispatch.looking import UNSEEN, Looked
from dispatch.marker import Sender, boot_clock
from dispatch.models import Operation, Submission
from dispatch.moving import RecordBusy, move
from dispatch.permits import asked_of_stops, checks_before, permit_of, results, what_it_waits_for
from dispatch.rechecking import is_looked_at
from dispatch.states import IN_DOUBT_OR_FLIGHT, OperationState
from dispatch.turning_down import turn_down
from dispatch.wire import Request
from workflows import journal
from workflows.machines import Claim
from workflows.models import Job
from workflows.states import ItemState, JobState

RECORD_BUSY = timedelta(seconds=15)
_IN_FLIGHT = "one_operation_in_flight_a_record"
"""The index that refuses a second operation on a record. Any other refusal is a fault, which waiting does not mend."""
PAUSE_LOOK = timedelta(seconds=60)
"""For a ring that a crash swallowed, and for an organisation that is restored: nothing rings for all its jobs."""
S = OperationState


@dataclass(frozen=True, slots=True)
class Opened:
    """A submission that may be sent, with all that sending needs; no row has to be read again."""

    job_id: int
    operation_id: int
    sender: Sender
    sending: Sending

    @property
    def request(self) -> Request:
        return self.sending.request

    @property
    def contract(self) -> Contract:
        return self.sending.contract


@dataclass(frozen=True, slots=True)
class NotOpened:
    """Nothing may be sent now. `again_at`: when to look again, where nobody will ring."""

    why: str
    again_at: datetime | None = None


def open_submission(*, claim: Claim, operation_id: int, looked: Looked, now: datetime) -> Opened | NotOpened:
    """Repeat the checks and open a submission, or say why not, in one transaction.

    Locks job → proposal → operation → submission. A claim that is no longer held opens nothing. What fails is journalled by name
    (`send.check_failed`) and goes back the way the table of states says.
    """
    began = boot_clock()
    try:
        with acting(claim.tenant_id):
            at = locks.lock_all(claim.job_id, operation_id)
            return open_locked(claim=claim, at=at, looked=looked, began=began, now=now)
    except RecordBusy:
        return busy(now)


def busy(now: datetime) -> NotOpened:
    """Another operation on the same record is in flight or unknown."""
    return NotOpened("another operation on the same record is not settled", now + RECORD_BUSY)


def open_locked(
    *, claim: Claim, at: locks.Locked, looked: Looked, began: float, now: datetime
) -> Opened | NotOpened:
    """The same in the caller's transaction, which holds the locks and has written nothing.

    `began`: the boot clock before the transaction. SecretMissing and RecordBusy (the database refused a second
    operation on the record, which a look before could not see yet) go through the transaction and roll it back.
    """
    job, proposal, operation = at.job, at.proposal, at.operation
    switches = switches_of(job.tenant_id)
    if quarantining.is_due(operation, proposal, switches.restored):
        actor = Actor(ActorKind.WORKER, claim.worker_name)
        quarantining.quarantine(job=job, proposal=proposal, operation=operation, actor=actor, now=now)
        return NotOpened("it may have been sent after the backup", operation.next_step_at or now)
    with ahead(_look_asked(claim, operation), *asked_of_stops(job, operation)):
        waits_for = what_it_waits_for(job, operation, switches)
        waits = _waits(claim, job, operation, waits_for, now)
    if waits is not None:
        return waits
    permit = permit_of(operation)
    if permit == "window":
        outcomes.renew_window(operation)
    if permit == "approval" and looked is UNSEEN and is_looked_at(job):
        # It was unknown when it was taken up, and has been settled as not applied since: the approval permits it now.
        return NotOpened("the workflow has to look at it first", now)
    checks = checks_before(
        job, proposal, operation, permit=permit, waits_for=waits_for, looked=looked, now=now
    )
    failure = first_failure(checks)
    if failure is not None:
        turn_down(job, proposal, operation, checks, failure, now)
        return NotOpened(failure.sentence)
    return _open(claim, job, proposal, operation, checks, permit=permit, began=began, now=now)


def _waits(
    claim: Claim, job: Job, operation: Operation, waits_for: list[CheckResult], now: datetime
) -> NotOpened | None:
    """What stands in the way without any fault: nothing is journalled, somebody will ring or the time comes."""
    held, record_is_busy = _look(claim, operation)
    if not held:
        return NotOpened("the claim is another's")
    if job.state not in (JobState.READY_TO_COMMIT, JobState.SUBMITTED):
        return NotOpened(f"the job is {job.state}")
    if operation.state not in (S.PREPARED, S.UNKNOWN, S.NOT_APPLIED):
        return NotOpened(f"the operation is {operation.state}")
    if job.held_at is not None:
        return NotOpened("the job is held", now + timedelta(seconds=1))
    stopped = next((check for check in waits_for if not check.ok), None)
    if stopped is not None:
        # Whoever cancels rings; of the others a resumed receiver and an answered mismatch do, a restored organisation does not.
        return NotOpened(stopped.sentence, None if stopped.name == "Cancel" else now + PAUSE_LOOK)
    if record_is_busy:
        return busy(now)
    return None


def _open(
    claim: Claim, job: Job, proposal: Proposal, operation: Operation, checks: list[CheckResult], *,
    permit: str, began: float, now: datetime,
) -> Opened:  # fmt: skip
    contract = Contract.of(operation.contract.terms)
    again = operation.state != S.PREPARED
    try:
        move(operation, S.SUBMITTED, now, next_step="", next_step_at=None, lookups=0, ordered_by="")
    except IntegrityError as refused:
        if _IN_FLIGHT not in str(refused):
            raise
        raise RecordBusy from refused
    window, (opened_at, last) = contract.timeouts.send_window, locks.clock_and_last_submission(operation)
    submission = insert(
        Submission(
            tenant_id=claim.tenant_id,
            operation=operation,
            number=last + 1,
            item_id=claim.item_id,
            claim_no=claim.claim_no,
            worker_id=claim.worker_id,
            worker_name=claim.worker_name,
            resubmission=again,
            permit=permit,
            body_digest=operation.proposed.body_digest,
            checks=json.dumps(results(checks)),
            opened_at=opened_at,
            send_deadline_at=opened_at + timedelta(seconds=window),
        )
    )
    mark_sent(proposal, now)
    _journal_opening(claim, job, operation, submission)
    sender = Sender(
        claim.tenant_id, submission.pk, claim.item_id, claim.claim_no, claim.worker_id, began + window,
        key_of(proposal.recipient),
    )  # fmt: skip
    return _opened(operation, contract, sender)


def _opened(operation: Operation, contract: Contract, sender: Sender) -> Opened:
    return Opened(operation.job_id, operation.pk, sender, sending_of(operation, contract))


def _journal_opening(claim: Claim, job: Job, operation: Operation, submission: Submission) -> None:
    actor = Actor(ActorKind.WORKER, claim.worker_name)
    evidence = {
        "operation": operation.label,
        "operation_key": operation.operation_key,
        "submission": submission.number,
        "body_digest": submission.body_digest,
        "permit": submission.permit,
        "checks": [c["name"] for c in json.loads(submission.checks)],
    }
    event = "operation.resubmitted" if submission.resubmission else "operation.submitted"
    if job.state == JobState.READY_TO_COMMIT:
        journal.transition(job=job, to=JobState.SUBMITTED, event=event, actor=actor, evidence=evidence)
    else:
        journal.record(job=job, event=event, actor=actor, evidence=evidence)


def _look(claim: Claim, operation: Operation) -> tuple[bool, bool]:
    """Whether the claim is still held, and whether another operation on the record is in flight or unknown."""
    held, busy = execute(*_look_asked(claim, operation)).fetchone()
    return held, busy


def _look_asked(claim: Claim, operation: Operation) -> Asked:
    return _LOOK, {
        "item": claim.item_id,
        "claim": claim.claim_no,
        "worker": claim.worker_id,
        "running": ItemState.RUNNING.number,
        "operation": operation.pk,
        "receiver": operation.receiver_id,
        "account": operation.account,
        "record": operation.record,
    }


_LOOK = f"""
SELECT EXISTS (
    SELECT FROM workflows_workitem w JOIN workflows_worker k ON k.id = w.worker_id
    WHERE w.id = %(item)s AND w.claim_no = %(claim)s AND w.worker_id = %(worker)s AND w.state = %(running)s
      AND k.ended_at IS NULL AND k.lease_until > clock_timestamp()),
  EXISTS (
    SELECT FROM dispatch_operation WHERE receiver_id = %(receiver)s AND account = %(account)s
      AND record = %(record)s AND state IN ({", ".join(f"'{state}'" for state in IN_DOUBT_OR_FLIGHT)}) AND id <> %(operation)s)
"""  # noqa: S608 - our own names; written out, since the index is about these two states
