"""What the room that reconciles does to an operation, inside its own transaction.

Every function wants the job and its operations locked (`locks.lock_job_and_operation`), journals what it did and
derives the job. It checks what is true of the operation, not who may ask: roles, reasons and second persons are the
caller's, which names them in `actor` and `note`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from access.refusals import Conflict
from access.roles import Actor
from dispatch import outcomes, proofs
from dispatch.actions.prepare import ring_open
from dispatch.deriving import current_operations, derive_job
from dispatch.locks import database_clock, lock_operations
from dispatch.models import Operation, Submission
from dispatch.moving import move, observe, plan
from dispatch.proofs import MACHINE
from dispatch.states import NextStep, OperationState
from workflows import journal, machines
from workflows.models import Job
from workflows.states import ENDED, JobState

S = OperationState


class NotInDoubt(Conflict):
    """The operation is settled, or is in a state in which this cannot be said of it."""


class StillSending(Conflict):
    """A submission is open, so nothing can be said about the operation yet."""


class WindowPassed(Conflict):
    """The receiver no longer recognises the key, so sending again could be a second effect."""


def settle_confirmed(
    *, job: Job, operation: Operation, kind: str, summary: str, receipt_id: str, actor: Actor, now: datetime,
    detail: str = "",
) -> None:  # fmt: skip
    """Applied as approved, by a person's receipt or a statement line. Keeps the observation that proves it.

    Raises NotInDoubt, StillSending.
    """
    _require(operation, S.UNKNOWN, S.SUBMITTED, S.NOT_APPLIED)
    observe(
        job=job, operation=operation, kind=kind, finding="applied", proves=True, summary=summary, actor=actor,
        now=database_clock(), detail=detail, receipt_id=receipt_id,
    )  # fmt: skip
    proofs.take_as_applied(job=job, operation=operation, receipt_id=receipt_id, actor=actor, now=now)
    _note(job, operation, "operation.settled", actor, {"as": "confirmed", "receipt": receipt_id})


def settle_not_applied(
    *, job: Job, operation: Operation, summary: str, actor: Actor, now: datetime, detail: str = ""
) -> None:
    """Attested not to have been applied (the caller has made sure of the second person). Never sent again by itself.

    Raises NotInDoubt, StillSending.
    """
    _require(operation, S.UNKNOWN)
    observe(
        job=job, operation=operation, kind="attested", finding="absent", proves=True, summary=summary, actor=actor,
        now=database_clock(), detail=detail,
    )  # fmt: skip
    move(operation, S.NOT_APPLIED, now, next_step="", next_step_at=None, fate_note=summary[:500])
    _note(job, operation, "operation.settled", actor, {"as": "not applied"})
    derive_job(job, actor, now)


def order_resubmission(
    *, job: Job, operation: Operation, actor: Actor, now: datetime, beyond_window: bool = False
) -> None:
    """Send the same key and bytes once more. `beyond_window`: a second person agreed to go without the receiver's.

    From UNKNOWN only inside the window, or beyond it where the retention is unpublished and a second person agreed;
    from NOT_APPLIED also later, as long as the approval lives. Moves NEEDS_RECONCILIATION → SUBMITTED where nothing else
    is in doubt. Repeating it moves the time. Raises NotInDoubt, StillSending, WindowPassed.
    """
    _require(operation, S.UNKNOWN, S.NOT_APPLIED)
    if operation.state == S.UNKNOWN and not _inside(operation, now) and not beyond_window:
        raise WindowPassed(
            f"{operation.label} cannot be sent again: the receiver would not recognise it, so it could take effect twice."
        )
    ordered_by = actor.name if beyond_window else ""
    plan(operation, NextStep.RESUBMIT, now, ordered_by=ordered_by[:200])
    evidence = {"operation_key": operation.operation_key, "beyond_window": beyond_window}
    _note(job, operation, "operation.resubmission_ordered", actor, evidence)
    derive_job(job, actor, now)
    machines.ring(job=job, machine=MACHINE, key=str(operation.pk))


def accept_variance(
    *, job: Job, operation: Operation, summary: str, actor: Actor, now: datetime, detail: str = ""
) -> None:
    """Take what the receiver did, though it differs from what was approved, as the outcome. `detail`: the difference that
    was let stand. Raises NotInDoubt."""
    _require(operation, S.CONFLICTED)
    observe(
        job=job, operation=operation, kind="variance", finding="applied", proves=True, summary=summary, actor=actor,
        now=database_clock(), receipt_id=operation.receipt_id, detail=detail,
    )  # fmt: skip
    _note(job, operation, "operation.variance_accepted", actor, {"why": summary})
    proofs.take_as_applied(
        job=job, operation=operation, receipt_id=operation.receipt_id, actor=actor, now=now
    )


def reopen(*, job: Job, operation: Operation, summary: str, actor: Actor, now: datetime) -> None:
    """Unknown again: two people say that what was recorded is not so. The job, ended or not, needs reconciliation.

    From then on nothing is sent by itself, and only what comes to light later settles it. Raises NotInDoubt, StillSending.
    """
    _require(operation, S.CONFIRMED, S.REFUSED, S.NOT_APPLIED)
    at = database_clock()
    observe(
        job=job, operation=operation, kind="reopened", finding="doubted", proves=False, summary=summary, actor=actor,
        now=at,
    )  # fmt: skip
    was = operation.state
    move(operation, S.UNKNOWN, now, next_step="", next_step_at=None, reopened_at=at, fate_note=summary[:500])
    evidence = {"was": was, "proposal": operation.proposed.proposal_id}
    _note(job, operation, "operation.reopened", actor, evidence)
    if job.state in ENDED:
        named = {"operation": operation.label, "was": was, "why": summary}
        journal.transition(
            job=job, to=JobState.NEEDS_RECONCILIATION, event="job.reopened", actor=actor, evidence=named
        )
    else:
        derive_job(job, actor, now)


def go_on(*, job: Job, actor: Actor, now: datetime) -> None:
    """Go on with operations that were never sent, after the doubt about an earlier one is gone. The checks are repeated.

    Also lifts a block that a person has put right. Raises NotInDoubt where nothing is left to send.
    """
    left = [o for o in current_operations(lock_operations(job)) if o.state == S.PREPARED]
    if not left:
        raise NotInDoubt(f"{job.label} has no operation that was never sent.")
    for operation in left:
        plan(operation, NextStep.SEND, None, fate_note="")
    journal.record(
        job=job, event="operation.sending_resumed", actor=actor,
        evidence={"operations": [o.label for o in left]},
    )  # fmt: skip
    derive_job(job, actor, now)
    ring_open(job)


def close_partly_applied(*, job: Job, actor: Actor, now: datetime, why: str) -> None:
    """End a job of which only a part was applied as FAILED (CANCELLED after a cancel), with the fate of each.

    Withdraws what was never sent. Raises NotInDoubt while one operation is unsettled; TransitionNotAllowed for whom it
    is not.
    """
    operations = current_operations(lock_operations(job))
    if any(o.state in (S.SUBMITTED, S.UNKNOWN, S.CONFLICTED) for o in operations):
        raise NotInDoubt(f"{job.label} still has an operation whose outcome is not settled.")
    for operation in operations:
        if operation.state == S.PREPARED:
            move(operation, S.WITHDRAWN, now, next_step="", next_step_at=None, fate_note=why[:500])
    cancelled = job.cancel_requested_at is not None
    journal.transition(
        job=job,
        to=JobState.CANCELLED if cancelled else JobState.FAILED,
        event="job.cancelled" if cancelled else "outcome.partly_applied",
        actor=actor,
        evidence={
            "why": why,
            "operations": [{"operation": o.label, "state": o.state, "receipt": o.receipt_id} for o in operations],
        },
    )  # fmt: skip


def _inside(operation: Operation, now: datetime) -> bool:
    first = operation.first_may_have_been_sent_at
    until = outcomes.safe_until(operation, first) if first is not None else None
    return until is not None and now < until


def _require(operation: Operation, *allowed: OperationState) -> None:
    if operation.state not in allowed:
        raise NotInDoubt(f"{operation.label} is {_words(operation.state)}.")
    refuse_while_sending(operation)


def refuse_while_sending(operation: Operation) -> None:
    """StillSending while a submission of a locked operation is open."""
    if Submission.objects.filter(operation=operation, closed_at__isnull=True).exists():
        raise StillSending(f"{operation.label} is being sent at this moment.")


def _words(state: str) -> str:
    return state.replace("_", " ").lower()


def _note(job: Job, operation: Operation, event: str, actor: Actor, evidence: Mapping[str, Any]) -> None:
    named = {"operation": operation.label, "operation_id": operation.pk, **evidence}
    journal.record(job=job, event=event, actor=actor, evidence=named)
