"""What follows from the job's state, in its transaction: operations are made, rung, or withdrawn. Hooks, not doors."""

from __future__ import annotations

from datetime import datetime

from approvals.models import Closing, Proposal, ProposedOperation
from dispatch.deriving import current_operations, derive_job
from dispatch.locks import lock_operations
from dispatch.models import Operation, Receiver, ReceiverContract
from dispatch.moving import move
from dispatch.proofs import MACHINE
from dispatch.states import NextStep, OperationState
from workflows import machines
from workflows.hooks import Happened
from workflows.models import Job


def prepare_operations(happened: Happened) -> None:
    """READY_TO_COMMIT: make the proposal's operations, once, and ring for each that may go. Locks the operations."""
    job = happened.job
    proposal = _proposal(job)
    if proposal is None:
        return
    made = set(Operation.objects.filter(proposed__proposal=proposal).values_list("proposed_id", flat=True))
    for proposed in ProposedOperation.objects.filter(proposal=proposal).order_by("ordinal"):
        if proposed.pk not in made:
            _make(job, proposed, happened.at)
    ring_open(job)


def withdraw_operations(happened: Happened) -> None:
    """VALIDATED or ended: what was never sent will not be. An operation of the voided proposal is of no use again."""
    _withdraw(happened.job, happened.at)


def stop_what_can_be(happened: Happened) -> None:
    """A cancel was asked for: withdraw what was not sent, have the rest looked at, and derive the job."""
    job = happened.job
    _withdraw(job, happened.at)
    ring_open(job)
    derive_job(job, happened.actor, happened.at)


def ring_open(job: Job) -> None:
    """Ring for every operation of a locked job that has a step of its own, at that step's time."""
    for operation in current_operations(lock_operations(job)):
        if operation.next_step not in (NextStep.NONE, NextStep.BLOCKED):
            machines.ring(job=job, machine=MACHINE, key=str(operation.pk), at=operation.next_step_at)


def _proposal(job: Job) -> Proposal | None:
    last = Proposal.objects.filter(job=job).order_by("-number").first()
    return last if last is not None and last.closing in ("", Closing.SENT) else None


def _make(job: Job, proposed: ProposedOperation, now: datetime) -> None:
    receiver = Receiver.objects.get(name=proposed.receiver)
    Operation.objects.create(
        tenant_id=job.tenant_id,
        job=job,
        proposed=proposed,
        receiver=receiver,
        contract=ReceiverContract.objects.get(receiver=receiver, version=proposed.contract_version),
        ordinal=proposed.ordinal,
        operation_key=proposed.operation_key,
        account=proposed.account,
        record=proposed.record,
        created_at=now,
    )


def _withdraw(job: Job, now: datetime) -> None:
    for operation in lock_operations(job):
        if operation.state == OperationState.PREPARED:
            move(operation, OperationState.WITHDRAWN, now, next_step="", next_step_at=None)
