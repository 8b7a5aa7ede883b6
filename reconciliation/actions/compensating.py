"""Compensating: a new job takes back what an applied operation did, with its own proposal, key and full approval.

It is a job of the workflow that says that it compensates the original's. The original and its receiver's id are bound to
it in the same transaction; nothing else happens to the original, and what is sent is what its approvers sign.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access.refusals import Conflict, NotPermitted, Unprocessable
from access.roles import Actor
from access.tenancy import acting
from approvals.models import Proposal
from dispatch import reversals
from dispatch.locks import lock_job_and_operation
from dispatch.minor import as_amount, as_minor
from dispatch.models import Operation, Reversal
from reconciliation.actions.working import operator
from reconciliation.reversing import why_not
from reconciliation.situation import frozen_operation
from web import amounts
from web.redaction import hide
from workflows import journal, known, registry, submissions
from workflows.actions.submit import CheckedSubmission, submit_inside
from workflows.journal import part_of
from workflows.models import Job


class CannotCompensate(Conflict):
    """What stands in the way, in a sentence: it was not applied, it is taken back, or nobody wrote how."""


class NotSoMuch(Unprocessable):
    """The amount is none, or more than is left to be taken back."""


@dataclass(frozen=True, slots=True)
class Compensated:
    """The job that takes it back. `replayed`: the same form had made it before."""

    job_id: int
    replayed: bool


def compensate(
    *, tenant_id: int, operation_id: int, person_id: int, amount: str, reason: str, key: str, now: datetime
) -> Compensated:
    """Start the job that takes back an applied operation, for `amount` of it ("" takes all that is left).

    `key`: one press of one form. Operators. Locks job → operation. Raises NoSuchOperation, NotPermitted,
    CannotCompensate, NotSoMuch, and what `submit_inside` raises.
    """
    with acting(tenant_id):
        actor = operator(person_id)
        return compensate_inside(
            operation_id=operation_id, actor=actor, amount=amount, reason=reason, key=key, now=now
        )


def compensate_inside(
    *, operation_id: int, actor: Actor, amount: str, reason: str, key: str, now: datetime, bulk: int = 0
) -> Compensated:
    """The same inside a transaction whose caller has asked who may."""
    if not actor.is_person:
        raise NotPermitted("Only a person asks for a compensation.")
    job, operation = lock_job_and_operation(operation_id)
    submission_key = f"{operation.label} {operation.pk} {key}"[:200]
    done = Reversal.objects.filter(original=operation, job__submission_key=submission_key).first()
    if done is not None:
        return Compensated(done.job_id, replayed=True)
    if said := why_not(job, operation):
        raise CannotCompensate(said)
    definition = registry.compensating(job.workflow)
    assert definition is not None
    known.require(definition)
    minor = _minor(operation, amount)
    reason = hide(reason.strip())[:1000]
    if not reason:
        raise NotSoMuch("Say why it is taken back.")
    value = applied_value(job, operation, minor, reason)
    submission = CheckedSubmission(
        definition=definition,
        text=submissions.check(definition, value),
        key=submission_key,
        person_id=actor.person_id,
        source=reversals.COMPENSATION,
        now=now,
        told={"compensates": operation.label, "receipt": operation.receipt_id},
    )
    made = submit_inside(tenant_id=job.tenant_id, submission=submission, actor=actor)
    _bind(operation, made.job_id, minor, actor, reason, now)
    evidence = {
        "operation": operation.label, "operation_id": operation.pk, "job": made.job_id, "reason": reason, **part_of(bulk)
    }  # fmt: skip
    journal.record(job=job, event="operation.compensation_asked", actor=actor, evidence=evidence)
    return Compensated(made.job_id, replayed=False)


def applied_value(job: Job, operation: Operation, minor: int | None, reason: str) -> dict[str, Any]:
    """The input of the job that takes it back, as `workflows.authoring.Applied` has it."""
    proposal = Proposal.objects.get(pk=operation.proposed.proposal_id)
    frozen = frozen_operation(proposal, operation.ordinal)
    currency = operation.currency or None
    return {
        "job": job.label,
        "operation": operation.label,
        "operation_key": operation.operation_key,
        "workflow": job.workflow,
        "receiver": operation.receiver.name,
        "account": operation.account,
        "action": frozen.get("action", ""),
        "record": operation.record,
        "title": operation.proposed.title,
        "receipt_id": operation.receipt_id,
        "body": _object(bytes(operation.proposed.body)),
        "changes": frozen.get("changes", []),
        "applied_amount": _text(operation.amount_minor, operation.currency),
        "amount": _text(minor, operation.currency),
        "currency": currency,
        "reason": reason,
    }


def _bind(
    operation: Operation, job_id: int, minor: int | None, actor: Actor, reason: str, now: datetime
) -> None:
    Reversal.objects.create(
        tenant_id=operation.tenant_id,
        original=operation,
        job_id=job_id,
        receipt_id=operation.receipt_id,
        amount_minor=minor,
        currency=operation.currency,
        reason=reason,
        asked_by=actor.name,
        asked_at=now,
    )


def _minor(operation: Operation, amount: str) -> int | None:
    """How much is taken back, in the smallest unit of the operation's currency; None where no amount was approved."""
    amount = amount.strip()
    if operation.amount_minor is None:
        if amount:
            raise NotSoMuch("No amount was approved, so it is taken back as a whole. Leave the amount empty.")
        return None
    left = reversals.taken_back(operation).left
    if not amount:
        return left
    try:
        minor = as_minor(amounts.typed(amount), operation.currency)
    except ValueError as not_one:
        raise NotSoMuch(str(not_one)) from None
    if minor is None or not 0 < minor <= left:
        most = reversals.in_words(left, operation.currency)
        raise NotSoMuch(f"Enter an amount above nothing, and no more than the {most} that are left.")
    return minor


def _text(minor: int | None, currency: str) -> str | None:
    if minor is None:
        return None
    return f"{as_amount(abs(minor), currency):f}"


def _object(body: bytes) -> dict[str, Any]:
    """The JSON object that was sent; empty where it was none."""
    try:
        value = json.loads(body.decode("utf-8"), parse_float=str)
    except (UnicodeDecodeError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
