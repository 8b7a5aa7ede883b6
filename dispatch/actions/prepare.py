"""What follows from the job's state, in its transaction: operations are made, rung, or withdrawn. Hooks, not doors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Subquery

from access.statements import Select, Values, insert
from approvals.models import Closing, Proposal, ProposedOperation
from dispatch.deriving import current, derive_job
from dispatch.locks import lock_operations
from dispatch.minor import amounts_of
from dispatch.models import Operation, ReceiverContract
from dispatch.moving import move
from dispatch.proofs import MACHINE
from dispatch.states import NextStep, OperationState
from workflows import machines
from workflows.hooks import Happened
from workflows.models import Job


def prepare_operations(happened: Happened) -> None:
    """READY_TO_COMMIT: make the proposal's operations, once, and ring for each that may go. The job is locked."""
    job = happened.job
    _make(job, _LEFT.all(job.pk), happened.at)
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
    """Ring for every operation of a locked job that has a step of its own, at that step's time.

    A limit called "receiver-" and the receiver's name holds for its sends and look-ups.
    """
    keys: dict[tuple[datetime | None, str], list[str]] = defaultdict(list)
    for operation_id, at, receiver in _DUE.all(job.pk):
        keys[at, receiver].append(str(operation_id))
    for (at, receiver), theirs in keys.items():
        machines.ring_all(job=job, machine=MACHINE, keys=theirs, at=at, limit=f"receiver-{receiver}")


def _make(job: Job, proposed: Sequence[ProposedOperation], now: datetime) -> None:
    if not proposed:
        return
    named = list({p.receiver for p in proposed})
    contracts = {(c.receiver.name, c.version): c for c in _CONTRACTS.all(named)}
    amounts = amounts_of(proposed[0].proposal.document)
    for p in proposed:
        contract = contracts[p.receiver, p.contract_version]
        amount_minor, currency = amounts.get(p.ordinal, (None, ""))
        insert(
            Operation(
                tenant_id=job.tenant_id,
                job=job,
                proposed=p,
                receiver=contract.receiver,
                contract=contract,
                ordinal=p.ordinal,
                operation_key=p.operation_key,
                account=p.account,
                record=p.record,
                amount_minor=amount_minor,
                currency=currency,
                created_at=now,
            )
        )


def _withdraw(job: Job, now: datetime) -> None:
    for operation in lock_operations(job):
        if operation.state == OperationState.PREPARED:
            move(operation, OperationState.WITHDRAWN, now, next_step="", next_step_at=None)


def _left(job: Any) -> QuerySet[ProposedOperation]:
    """What the job's latest proposal asks for and is not made yet, unless that proposal was closed unsent."""
    latest = Proposal.objects.filter(job=job).order_by("-number").values("pk")[:1]
    made = Operation.objects.filter(job=job).values("proposed_id")
    left = ProposedOperation.objects.filter(
        proposal=Subquery(latest), proposal__closing__in=("", Closing.SENT)
    ).exclude(pk__in=made)
    return left.select_related("proposal").defer("body", "headers").order_by("ordinal")


def _due(job: Any) -> QuerySet[Operation, tuple[Any, ...]]:
    due = current(job).exclude(next_step__in=(NextStep.NONE, NextStep.BLOCKED))
    return due.values_list("pk", "next_step_at", "receiver__name")


_LEFT = Select(_left)
_DUE = Values(_due)
_CONTRACTS = Select(
    lambda names: ReceiverContract.objects.filter(receiver__name__among=names).select_related("receiver")
)
