"""Evidence that settles an operation, wherever it comes from: an answer, a late one, a look-up, a callback, a person.

Each function runs in its caller's transaction under the locks of the job and its operations. Evidence against what has
ended, or was settled before a later proposal, moves nothing: it is journalled as `outcome.contradicted`, for a person.
"""

from __future__ import annotations

from datetime import datetime

from access.roles import Actor
from access.statements import Select
from approvals.models import Proposal
from dispatch.classification import Outcome, Reading
from dispatch.deriving import current, derive_job
from dispatch.models import Operation, Submission
from dispatch.moving import move, observe, plan
from dispatch.states import NextStep, OperationState
from workflows import journal, machines
from workflows.models import Job
from workflows.states import ENDED

MACHINE = "dispatch.send"
S = OperationState


def keep_late_answer(
    *, job: Job, operation: Operation, submission: Submission, reading: Reading, actor: Actor, now: datetime
) -> None:
    """An answer to a submission that was closed meanwhile: evidence, which settles what is still in doubt."""
    applied = reading.outcome is Outcome.APPLIED
    findings = {Outcome.APPLIED: "applied", Outcome.CONFLICTED: "differs"}
    observe(
        job=job, operation=operation, kind="late answer", finding=findings.get(reading.outcome, "unclear"),
        proves=applied, summary=f"submission {submission.number}: {reading.fault}", actor=actor, now=now,
        receipt_id=reading.receipt_id,
    )  # fmt: skip
    if applied and _is_another_effect(operation, reading.receipt_id):
        why = (
            f"a late answer names {reading.receipt_id}, beside {operation.receipt_id} of the send that counts"
        )
        evidence = {"operation": operation.label, "operation_id": operation.pk, "why": why}
        journal.record(job=job, event="operation.possible_duplicate", actor=actor, evidence=evidence)
    elif applied:
        take_as_applied(job=job, operation=operation, receipt_id=reading.receipt_id, actor=actor, now=now)
    elif reading.outcome is Outcome.CONFLICTED:
        take_as_differing(job=job, operation=operation, receipt_id=reading.receipt_id, actor=actor, now=now)


def _is_another_effect(operation: Operation, receipt_id: str) -> bool:
    """Whether two sends were applied under two of the receiver's ids: both answers speak of the same kind of id."""
    applied = Submission.objects.filter(operation=operation, outcome=Outcome.APPLIED, receipt_id__gt="")
    other = applied.exclude(receipt_id=receipt_id)
    return bool(operation.state == S.CONFIRMED and receipt_id and other.exists())


def take_as_applied(*, job: Job, operation: Operation, receipt_id: str, actor: Actor, now: datetime) -> None:
    """A proof that it was applied as approved has been kept: confirm, or say that it contradicts what ended."""
    if operation.state == S.CONFIRMED:
        return
    open_states = (S.SUBMITTED, S.UNKNOWN, S.NOT_APPLIED, S.CONFLICTED)
    if job.state in ENDED or operation.state not in open_states or _is_of_an_earlier(job, operation):
        contradict(job, operation, "applied", actor)
        return
    move(operation, S.CONFIRMED, now, next_step="", next_step_at=None, receipt_id=receipt_id[:200])
    derive_job(job, actor, now)
    ring_next(job, operation)


def take_as_differing(
    *, job: Job, operation: Operation, receipt_id: str, actor: Actor, now: datetime
) -> None:
    """Something else than what was approved is there: conflicted, or a contradiction of what ended."""
    if operation.state == S.CONFLICTED:
        return
    open_states = (S.SUBMITTED, S.UNKNOWN, S.CONFIRMED)
    if job.state in ENDED or operation.state not in open_states or _is_of_an_earlier(job, operation):
        contradict(job, operation, "differs", actor)
        return
    move(operation, S.CONFLICTED, now, next_step="", next_step_at=None, receipt_id=receipt_id[:200])
    derive_job(job, actor, now)


def take_as_refused(*, job: Job, operation: Operation, why: str, actor: Actor, now: datetime) -> None:
    """The receiver said a definite no to what it had accepted; those that waited for it stop."""
    move(operation, S.REFUSED, now, next_step="", next_step_at=None, fate_note=why[:500])
    stop_dependents(job, operation)
    derive_job(job, actor, now)


def stop_dependents(job: Job, refused: Operation) -> None:
    """Those behind a refused operation are not sent, unless they do not depend on it."""
    behind = current(job).filter(ordinal__gt=refused.ordinal, state=S.PREPARED, proposed__independent=False)
    for other in behind.order_by("pk"):
        plan(other, NextStep.NONE, None, fate_note=f"{refused.label} before it was refused")


def ring_next(job: Job, after: Operation) -> None:
    """Have the operation that waited for this one looked at. The caller holds the job's lock, and has derived the job.

    That is the first one that is not confirmed: those behind it wait for it in turn. An independent one waits for none.
    """
    if job.state in ENDED:
        return
    waiting = _LEFT.first(job.pk)
    if waiting is None or waiting.ordinal < after.ordinal or waiting.proposed.independent:
        return
    if waiting.next_step == NextStep.SEND:
        machines.ring(job=job, machine=MACHINE, key=str(waiting.pk))


def contradict(job: Job, operation: Operation, finding: str, actor: Actor) -> None:
    """Journal evidence against what is settled: nothing moves, and a person is asked."""
    evidence = {
        "operation": operation.label,
        "operation_id": operation.pk,
        "proposal": operation.proposed.proposal_id,
        "state": operation.state,
        "finding": finding,
    }
    journal.record(job=job, event="outcome.contradicted", actor=actor, evidence=evidence)


def _is_of_an_earlier(job: Job, operation: Operation) -> bool:
    """Whether a later proposal has taken its place: what comes to light about it now speaks against what was settled."""
    latest = Proposal.objects.filter(job=job).order_by("-number").values_list("pk", flat=True).first()
    return latest is not None and operation.proposed.proposal_id != latest


_LEFT = Select(lambda job: current(job).exclude(state=S.CONFIRMED).select_related("proposed")[:1])
