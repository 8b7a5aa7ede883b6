"""Asking a receiver what became of an operation: a read, outside any transaction, and what its answer proves.

"Found nothing" is an observation. It proves that nothing was applied only where the contract says so and the time in
which a send could still arrive has passed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from access.roles import Actor
from access.tenancy import acting, reading
from dispatch import locks, outcomes, proofs
from dispatch.connectors.calling import look_through
from dispatch.connectors.registry import NoSuchConnector, connector
from dispatch.contracts import Contract
from dispatch.deriving import derive_job
from dispatch.frozen import sending_of
from dispatch.in_part import is_done_in_part
from dispatch.models import Operation, Submission
from dispatch.moving import move, observe, plan
from dispatch.refusing import take_as_failed
from dispatch.requests import same_place
from dispatch.secrets import SecretMissing
from dispatch.sights import Found, Sight
from dispatch.states import NextStep, OperationState
from workflows import journal
from workflows.models import Job
from workflows.states import ENDED

S = OperationState


@dataclass(frozen=True, slots=True)
class LookedUp:
    """What a look-up brought: the sight, whether it proves it, and the operation's state after it."""

    sight: Sight
    proves: bool
    state: str


class NoLookup(Exception):
    """The receiver's contract offers no look-up."""


def look(*, tenant_id: int, operation_id: int, actor: Actor, now: datetime) -> LookedUp:
    """Ask the receiver and keep what it says (`operation.observed`); settles the operation where that proves it.

    Opens its own transactions, none during the call; locks job → operations. A repeat is another observation. Raises
    NoSuchOperation, NoLookup.
    """
    with reading(tenant_id):
        operation = _load(operation_id)
        contract = Contract.of(operation.contract.terms)
    if contract.lookup is None:
        raise NoLookup(f"{operation.receiver.title} offers no look-up.")
    # Before the question: a send that begins while it is asked must not be taken for absent.
    asked_at = _database_now(tenant_id)
    sight = _ask(operation, contract)
    with acting(tenant_id):
        job, locked = locks.lock_job_and_operation(operation_id)
        return _keep(job, locked, contract, sight, asked_at=asked_at, actor=actor, now=now)


def _ask(operation: Operation, contract: Contract) -> Sight:
    try:
        sending = replace(sending_of(operation, contract, asks=True), reference=operation.job.reference)
        return look_through(connector(contract.connector), sending)
    except (SecretMissing, NoSuchConnector) as missing:
        return Sight(Found.UNCLEAR, str(missing))


def _keep(
    job: Job, operation: Operation, contract: Contract, sight: Sight, *, asked_at: datetime, actor: Actor, now: datetime
) -> LookedUp:  # fmt: skip
    proves = _proves(operation, contract, sight, asked_at)
    observe(
        job=job, operation=operation, kind="lookup", finding=sight.found.value, proves=proves, summary=sight.summary,
        actor=actor, now=asked_at, detail=sight.detail, receipt_id=sight.receipt_id, heard=sight.heard,
    )  # fmt: skip
    plan(operation, NextStep(operation.next_step), operation.next_step_at, lookups=operation.lookups + 1)
    if Submission.objects.filter(operation=operation, closed_at__isnull=True).exists():
        if sight.found is Found.DUPLICATE:
            _tell_duplicate(job, operation, sight, actor)
        return LookedUp(sight, proves, operation.state)  # whoever closes that send joins what was seen here
    if sight.found is Found.APPLIED and proves:
        proofs.take_as_applied(
            job=job, operation=operation, receipt_id=sight.receipt_id, actor=actor, now=now
        )
    elif sight.found in (Found.DIFFERS, Found.DUPLICATE) and proves:
        _differs(job, operation, sight, actor, now)
    elif sight.found is Found.ABSENT and proves and _may_be_absent(operation):
        _absent(job, operation, contract, actor, now)
    elif sight.found is not Found.FAILED or not proves or not _failed(job, operation, sight, actor, now):
        plan_again(job, operation, actor, now)
    return LookedUp(sight, proves, operation.state)


def _may_be_absent(operation: Operation) -> bool:
    return operation.state in (S.UNKNOWN, S.SUBMITTED) and not is_done_in_part(operation)


def plan_again(job: Job, operation: Operation, actor: Actor, now: datetime) -> None:
    """Decide the next step of an operation that stayed in doubt, and derive the job from that."""
    if job.state in ENDED or operation.state not in (S.UNKNOWN, S.SUBMITTED):
        return
    if Submission.objects.filter(operation=operation, closed_at__isnull=True).exists():
        return
    step = outcomes.decide(job, operation, outcomes.counting(operation), now)
    if operation.state == S.SUBMITTED and step.kind is not NextStep.LOOK_UP:
        move(
            operation,
            S.UNKNOWN,
            now,
            next_step="",
            next_step_at=None,
            fate_note="it was accepted, but never confirmed",
        )
    else:
        plan(operation, step.kind, step.at, fate_note=step.why[:500])
    derive_job(job, actor, now)


def _proves(operation: Operation, contract: Contract, sight: Sight, asked_at: datetime) -> bool:
    assert contract.lookup is not None
    if sight.found in (Found.APPLIED, Found.DIFFERS, Found.DUPLICATE, Found.FAILED):
        return contract.lookup.by_key or contract.lookup.authoritative
    if sight.found is not Found.ABSENT or not same_place(
        operation.receiver.base_url, operation.proposed.target
    ):
        return False  # that another place than the one it was sent to does not have it says nothing
    submissions = list(Submission.objects.filter(operation=operation))
    if any(s.closed_at is None for s in submissions):
        return False
    last = outcomes.quiet_from(operation, submissions)
    counts_from = outcomes.absence_counts_from(operation, last) if last is not None else None
    # What was accepted may be done until the time for its confirmation is over.
    until = outcomes.confirm_by(operation, outcomes.counting(operation), contract)
    return counts_from is not None and asked_at >= max(counts_from, until or counts_from)


def _failed(job: Job, operation: Operation, sight: Sight, actor: Actor, now: datetime) -> bool:
    return take_as_failed(job=job, operation=operation, why=sight.summary, actor=actor, now=now)


def _differs(job: Job, operation: Operation, sight: Sight, actor: Actor, now: datetime) -> None:
    if sight.found is Found.DUPLICATE:
        _tell_duplicate(job, operation, sight, actor)
    proofs.take_as_differing(job=job, operation=operation, receipt_id=sight.receipt_id, actor=actor, now=now)


def _tell_duplicate(job: Job, operation: Operation, sight: Sight, actor: Actor) -> None:
    evidence = {"operation": operation.label, "operation_id": operation.pk, "why": sight.summary}
    journal.record(job=job, event="operation.possible_duplicate", actor=actor, evidence=evidence)


def _absent(job: Job, operation: Operation, contract: Contract, actor: Actor, now: datetime) -> None:
    """Proven not applied: sent again by itself while the approval lives and the contract allows, else it stops."""
    sent = list(Submission.objects.filter(operation=operation).order_by("number"))
    again = (
        operation.automatic_resubmissions < contract.automatic_resubmissions
        and job.cancel_requested_at is None
        and operation.reopened_at is None
        and not outcomes.is_never_made_again(sent)
        and operation.proposed.proposal.expires_at > now
    )
    step, at = (NextStep.RESUBMIT, now) if again else (NextStep.NONE, None)
    move(
        operation, S.NOT_APPLIED, now, next_step=step.value, next_step_at=at,
        fate_note="the receiver holds nothing under this key",
    )  # fmt: skip
    derive_job(job, actor, now)


def _load(operation_id: int) -> Operation:
    query = Operation.objects.select_related("receiver", "contract", "proposed", "job")
    operation = query.filter(pk=operation_id).first()
    if operation is None:
        raise locks.NoSuchOperation(f"There is no operation {operation_id} here.")
    return operation


def _database_now(tenant_id: int) -> datetime:
    with reading(tenant_id):
        return locks.database_clock()
