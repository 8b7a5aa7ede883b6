"""Opening a submission: everything is looked at again under the locks, then intent is written before anything is sent.

A first send (and one after proof that nothing was applied) asks everything; the resubmission of an unknown operation
asks only for equal bytes, the window, hard policy and no cancel, since its first send may itself have moved the rest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import IntegrityError, connection, transaction
from django.db.models import Max

from access.roles import Actor, ActorKind
from access.tenancy import acting
from approvals.locks import lock_proposal
from approvals.models import Closing, Proposal
from approvals.standing import (
    CheckResult,
    Effect,
    approval_still_holds,
    failed_decisions,
    first_failure,
    mark_sent,
    send_back_to_approval,
    void_and_return,
)
from dispatch import locks, lookups
from dispatch.contracts import Contract
from dispatch.deriving import current_operations, derive_job
from dispatch.marker import Sender, boot_clock
from dispatch.models import Operation, Submission
from dispatch.moving import move, plan
from dispatch.rendering import local_path, same_place
from dispatch.secrets import secret_headers
from dispatch.states import IN_DOUBT_OR_FLIGHT, NextStep, OperationState
from dispatch.wire import Request
from workflows import journal
from workflows.locks import lock_job
from workflows.machines import Claim
from workflows.models import Job
from workflows.states import ItemState, JobState

RECORD_BUSY = timedelta(seconds=15)
PAUSE_LOOK = timedelta(seconds=60)
"""A resumed receiver rings; this is for the ring that a crash swallowed."""
S = OperationState


@dataclass(frozen=True, slots=True)
class Opened:
    """A submission that may be sent, with all that sending needs; no row has to be read again."""

    sender: Sender
    request: Request
    contract: Contract
    record: str
    method: str
    path: str


@dataclass(frozen=True, slots=True)
class NotOpened:
    """Nothing may be sent now. `again_at`: when to look again, where nobody will ring."""

    why: str
    again_at: datetime | None = None


def open_submission(
    *, claim: Claim, operation_id: int, objections: Sequence[str], now: datetime
) -> Opened | NotOpened:
    """Repeat the checks and open a submission, or say why not, in one transaction.

    Locks job → proposal → operation. A claim that is no longer held opens nothing. What fails is journalled by name
    (`send.check_failed`) and goes back the way the table of states says.
    """
    began = boot_clock()
    with acting(claim.tenant_id):
        job = lock_job(claim.job_id)
        proposal = lock_proposal(_proposal_of(operation_id))
        operation = locks.lock_operation(job, operation_id)
        if (waits := _waits(claim, job, operation, now)) is not None:
            return waits
        permit = permit_of(operation)
        checks = own_checks(operation, permit=permit, now=now)
        if permit == "approval":
            # The first send looks at all bytes that were approved, each later one at its own.
            only = None if job.state == JobState.READY_TO_COMMIT else operation.proposed_id
            checks += [*approval_still_holds(proposal, only=only), *_objections(objections)]
            checks.append(_earlier_sends(job))
        failure = first_failure(checks)
        if failure is not None:
            return _turned_down(job, proposal, operation, checks, failure, now)
        return _open(claim, job, proposal, operation, checks, permit=permit, began=began, now=now)


def permit_of(operation: Operation) -> str:
    """What allows this send: the approval, the receiver's window, or a person's order beyond it."""
    if operation.state == S.UNKNOWN:
        return "order" if operation.ordered_by else "window"
    return "order" if operation.ordered_by and operation.state == S.NOT_APPLIED else "approval"


def own_checks(operation: Operation, *, permit: str, now: datetime) -> list[CheckResult]:
    """This room's checks on one operation: its bytes, its target and, for a resubmission, the window."""
    proposed, receiver = operation.proposed, operation.receiver
    whole = hashlib.sha256(bytes(proposed.body)).hexdigest() == proposed.body_digest
    in_place = same_place(receiver.base_url, proposed.target)
    checks = [
        _check(
            "Bytes", whole, "The bytes are those that were approved.", "The bytes are not those approved."
        ),
        _check(
            "Target", in_place, "The receiver is where it was.", f"{receiver.title} has another address now."
        ),
    ]
    if permit == "window":
        until = operation.resubmit_safe_until
        open_still = until is not None and now < until
        checks.append(
            _check(
                "Window", open_still, "The receiver still knows this key.", "The same key is no longer safe."
            )
        )
    return checks


def _waits(claim: Claim, job: Job, operation: Operation, now: datetime) -> NotOpened | None:
    """What stands in the way without any fault: nothing is journalled, somebody will ring or the time comes."""
    if not _claim_is_held(claim):
        return NotOpened("the claim is another's")
    if job.state not in (JobState.READY_TO_COMMIT, JobState.SUBMITTED):
        return NotOpened(f"the job is {job.state}")
    if operation.state not in (S.PREPARED, S.UNKNOWN, S.NOT_APPLIED):
        return NotOpened(f"the operation is {operation.state}")
    if job.cancel_requested_at is not None:
        return NotOpened("a cancel was asked for")
    if job.held_at is not None:
        return NotOpened("the job is held", now + timedelta(seconds=1))
    if operation.receiver.paused_at is not None:
        return NotOpened("the receiver is paused", now + PAUSE_LOOK)
    if _record_is_busy(operation):
        return NotOpened("another operation on the same record is not settled", now + RECORD_BUSY)
    return None


def _turned_down(
    job: Job,
    proposal: Proposal,
    operation: Operation,
    checks: list[CheckResult],
    failure: CheckResult,
    now: datetime,
) -> NotOpened:
    actor = Actor(ActorKind.WORKER, "worker")
    for check in (c for c in checks if not c.ok):
        evidence = {"operation": operation.label, "check": check.name, "why": check.sentence}
        journal.record(job=job, event="send.check_failed", actor=actor, evidence=evidence)
    why = failure.sentence
    if failure.name == "Window":
        lookups.plan_again(job, operation, actor, now)
    elif operation.state != S.PREPARED:
        plan(operation, NextStep.NONE, None, fate_note=why[:500], ordered_by="")
        derive_job(job, actor, now)
    elif job.state != JobState.READY_TO_COMMIT:
        # Something of this proposal was applied already, so the job cannot go back: what is left stops here.
        for other in _rest(job, operation):
            plan(other, NextStep.NONE, None, fate_note=why[:500])
        derive_job(job, actor, now)
    elif failure.effect is Effect.BACK_TO_APPROVAL:
        send_back_to_approval(job, proposal, failed_decisions(checks), why, now)
    else:
        closing = Closing.EXPIRED if failure.effect is Effect.EXPIRED else Closing.VOIDED
        void_and_return(job, proposal, why, closing, now)
    return NotOpened(why)


def _open(
    claim: Claim, job: Job, proposal: Proposal, operation: Operation, checks: list[CheckResult], *,
    permit: str, began: float, now: datetime,
) -> Opened | NotOpened:  # fmt: skip
    contract = Contract.model_validate(operation.contract.terms)
    again = operation.state != S.PREPARED
    try:
        with transaction.atomic():
            move(operation, S.SUBMITTED, now, next_step="", next_step_at=None, lookups=0, ordered_by="")
    except IntegrityError:
        return NotOpened("another operation on the same record is not settled", now + RECORD_BUSY)
    window, opened_at = contract.timeouts.send_window, locks.database_clock()
    submission = Submission.objects.create(
        tenant_id=claim.tenant_id,
        operation=operation,
        number=(Submission.objects.filter(operation=operation).aggregate(n=Max("number"))["n"] or 0) + 1,
        item_id=claim.item_id,
        claim_no=claim.claim_no,
        worker_id=claim.worker_id,
        worker_name=claim.worker_name,
        resubmission=again,
        permit=permit,
        body_digest=operation.proposed.body_digest,
        checks=json.dumps([{"name": c.name, "ok": c.ok, "sentence": c.sentence} for c in checks]),
        opened_at=opened_at,
        send_deadline_at=opened_at + timedelta(seconds=window),
    )
    mark_sent(proposal, now)
    _journal_opening(claim, job, operation, submission)
    sender = Sender(
        claim.tenant_id, submission.pk, claim.item_id, claim.claim_no, claim.worker_id, began + window
    )
    return _opened(operation, contract, sender)


def _opened(operation: Operation, contract: Contract, sender: Sender) -> Opened:
    proposed = operation.proposed
    request = Request(
        method=proposed.method,
        url=proposed.target,
        headers=json.loads(proposed.headers),
        body=bytes(proposed.body),
        secret_headers=secret_headers(operation.receiver.secret_reference, contract),
    )
    return Opened(
        sender, request, contract, operation.record, proposed.method,
        local_path(operation.receiver.base_url, proposed.target),
    )  # fmt: skip


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


def _rest(job: Job, operation: Operation) -> list[Operation]:
    every = current_operations(locks.lock_operations(job))
    return [o for o in every if o.state == S.PREPARED and o.ordinal >= operation.ordinal]


def _proposal_of(operation_id: int) -> int:
    found = Operation.objects.filter(pk=operation_id).values_list("proposed__proposal_id", flat=True).first()
    if found is None:
        raise locks.NoSuchOperation(f"There is no operation {operation_id} here.")
    return int(found)


def _record_is_busy(operation: Operation) -> bool:
    others = Operation.objects.filter(
        receiver=operation.receiver_id, account=operation.account, record=operation.record,
        state__in=IN_DOUBT_OR_FLIGHT,
    )  # fmt: skip
    return others.exclude(pk=operation.pk).exists()


def _claim_is_held(claim: Claim) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM workflows_workitem w JOIN workflows_worker k ON k.id = w.worker_id"
            " WHERE w.id = %s AND w.claim_no = %s AND w.worker_id = %s AND w.state = %s"
            " AND k.ended_at IS NULL AND k.lease_until > clock_timestamp()",
            [claim.item_id, claim.claim_no, claim.worker_id, ItemState.RUNNING.number],
        )
        return cursor.fetchone() is not None


def _objections(objections: Sequence[str]) -> list[CheckResult]:
    if not objections:
        return [CheckResult("Recheck", True, "The workflow has no objection.")]
    return [CheckResult("Recheck", False, sentence, Effect.VOID) for sentence in objections]


ObjectsToSending = Callable[[Job], str]
_objects: list[ObjectsToSending] = []


def objects_to_sending(objection: ObjectsToSending) -> None:
    """Have a room above say what it knows of the job's earlier proposals that forbids a first send: a sentence, or ""."""
    _objects.append(objection)


def _earlier_sends(job: Job) -> CheckResult:
    said = next((said for objection in _objects if (said := objection(job))), "")
    return _check("Earlier sends", not said, "Nothing of an earlier proposal stands.", said)


def _check(name: str, ok: bool, holds: str, fails: str) -> CheckResult:
    return CheckResult(name, ok, holds if ok else fails, Effect.NONE if ok else Effect.VOID)
