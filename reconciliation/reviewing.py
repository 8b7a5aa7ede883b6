"""Which questions a job's operations leave open: cases that are missing are opened, answered ones are closed.

Runs after every change of an operation, in its transaction, with job and operations locked. It can be repeated.
"""

from __future__ import annotations

from datetime import datetime

from access.roles import Actor
from dispatch.deriving import current_operations
from dispatch.models import Operation
from dispatch.states import OperationState
from reconciliation import words
from reconciliation.casework import BY_EVIDENCE, WENT_ON, Question, close_open, open_case
from reconciliation.models import Case, CaseKind
from workflows.models import Job
from workflows.states import JobState

S = OperationState
_DOUBTS = {S.UNKNOWN.value: CaseKind.UNKNOWN_OUTCOME, S.CONFLICTED.value: CaseKind.CONFLICTED}
_UNANSWERED: dict[CaseKind, tuple[str, ...]] = {
    CaseKind.UNKNOWN_OUTCOME: (S.UNKNOWN, S.SUBMITTED),
    CaseKind.CONFIRMATION_OVERDUE: (S.UNKNOWN, S.SUBMITTED),
    CaseKind.CONFLICTED: (S.CONFLICTED,),
}
"""While an operation is in one of these, the question of such a case is not answered."""


def review(job: Job, actor: Actor, now: datetime) -> None:
    """Bring the job's cases about its operations up to date with them."""
    operations = operations_of(job)
    _close_answered(job, operations, actor, now)
    _close_unblocked(job, operations, actor, now)
    if job.state == JobState.NEEDS_RECONCILIATION:
        _open_doubts(job, operations, actor, now)


def operations_of(job: Job) -> list[Operation]:
    """The operations of the job's latest proposal that has any, with what their words need."""
    rows = Operation.objects.filter(job=job).select_related("receiver", "contract", "proposed")
    return current_operations(list(rows.order_by("pk")))


def doubt_as_told(operation: Operation) -> str:
    """What made the outcome a question, as the operation's rows say it."""
    last = operation.fate_note or "no answer that settles it"
    return f"{operation.label}: {last}."


def _open_doubts(job: Job, operations: list[Operation], actor: Actor, now: datetime) -> None:
    doubts = [o for o in operations if o.state in _DOUBTS]
    for operation in doubts:
        kind = _DOUBTS[operation.state]
        if Case.objects.filter(
            job=job, kind=kind.value, operation=operation, resolved_at__isnull=True
        ).exists():
            continue
        title = words.unknown(operation) if kind is CaseKind.UNKNOWN_OUTCOME else words.conflicted(operation)
        question = Question(kind, title, doubt_as_told(operation), actor.name, operation=operation)
        open_case(job=job, question=question, actor=actor, now=now)
    applied = [o for o in operations if o.state == S.CONFIRMED]
    under_way = [o for o in operations if o.state == S.SUBMITTED]
    stopped = [o for o in operations if o.state not in (S.CONFIRMED, S.SUBMITTED) and o not in doubts]
    if applied and stopped and not doubts and not under_way:
        _open_partial(job, applied, stopped, len(operations), actor, now)


def _open_partial(
    job: Job, applied: list[Operation], stopped: list[Operation], total: int, actor: Actor, now: datetime
) -> None:
    if Case.objects.filter(job=job, kind=CaseKind.PARTIAL.value, resolved_at__isnull=True).exists():
        return
    # The one that stopped the others is what a person can do something about; those behind it were never sent.
    blocker = next((o for o in stopped if o.state in (S.NOT_APPLIED, S.REFUSED)), stopped[0])
    fates = "; ".join(f"{o.label} {words.FATES[o.state]}" for o in (*applied, *stopped))
    question = Question(
        CaseKind.PARTIAL,
        words.partial(blocker, len(applied), total),
        f"{fates}."[:500],
        actor.name,
        operation=blocker,
    )
    open_case(job=job, question=question, actor=actor, now=now)


def _close_answered(job: Job, operations: list[Operation], actor: Actor, now: datetime) -> None:
    for kind, unanswered in _UNANSWERED.items():
        for operation in operations:
            if operation.state not in unanswered:
                reason = f"{operation.label} is {words.FATES[operation.state]}."
                close_open(
                    job=job,
                    kinds=(kind,),
                    resolution=BY_EVIDENCE,
                    reason=reason,
                    actor=actor,
                    now=now,
                    operation_id=operation.pk,
                )
    if job.state != JobState.NEEDS_RECONCILIATION:
        close_open(job=job, kinds=(CaseKind.PARTIAL,), resolution=WENT_ON, actor=actor, now=now)


def _close_unblocked(job: Job, operations: list[Operation], actor: Actor, now: datetime) -> None:
    for operation in operations:
        if operation.next_step != "blocked":
            close_open(
                job=job,
                kinds=(CaseKind.SEND_BLOCKED,),
                resolution=WENT_ON,
                actor=actor,
                now=now,
                operation_id=operation.pk,
            )
