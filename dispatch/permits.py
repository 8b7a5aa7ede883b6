"""What allows a send, and what is looked at before it: this room's checks, the approval's, and those of rooms above."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime

from approvals.document import disagreements
from approvals.models import Proposal
from approvals.standing import CheckResult, Effect, approval_still_holds
from dispatch.models import Operation
from dispatch.rendering import same_place
from dispatch.states import OperationState
from workflows.models import Job
from workflows.states import JobState

S = OperationState


def checks_before(
    job: Job,
    proposal: Proposal,
    operation: Operation,
    *,
    permit: str,
    objections: Sequence[str],
    now: datetime,
) -> list[CheckResult]:
    """Every check before a send, in the order of the screen. Reads; the caller holds job, proposal and operation."""
    checks = own_checks(proposal, operation, permit=permit, now=now)
    if permit == "approval":
        # The first send looks at all bytes that were approved, each later one at its own.
        only = None if job.state == JobState.READY_TO_COMMIT else operation.proposed_id
        checks += [*approval_still_holds(proposal, only=only), *_objections(objections)]
        checks.append(_earlier_sends(job))
    return checks


def permit_of(operation: Operation) -> str:
    """What allows this send: the approval, the receiver's window, or a person's order beyond it."""
    if operation.state == S.UNKNOWN:
        return "order" if operation.ordered_by else "window"
    return "order" if operation.ordered_by and operation.state == S.NOT_APPLIED else "approval"


def own_checks(proposal: Proposal, operation: Operation, *, permit: str, now: datetime) -> list[CheckResult]:
    """This room's checks on one operation: its bytes, its target and, for a resubmission, the window.

    A resubmission is compared with the signed document here; what the approval permits, among the approval's checks.
    """
    proposed, receiver = operation.proposed, operation.receiver
    whole = hashlib.sha256(bytes(proposed.body)).hexdigest() == proposed.body_digest
    whole = whole and _is_as_proposed(operation)
    if permit != "approval":
        whole = whole and not disagreements(proposal, [proposed], among=True)
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


def _is_as_proposed(operation: Operation) -> bool:
    """Whether the operation's own row repeats what was frozen: what a look-up asks for, and under which contract."""
    proposed = operation.proposed
    return (
        operation.operation_key,
        operation.account,
        operation.record,
        operation.ordinal,
        operation.receiver.name,
        operation.contract.version,
        operation.contract.receiver_id,
    ) == (
        proposed.operation_key,
        proposed.account,
        proposed.record,
        proposed.ordinal,
        proposed.receiver,
        proposed.contract_version,
        operation.receiver_id,
    )


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
