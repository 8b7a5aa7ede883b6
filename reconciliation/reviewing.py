"""Which questions a job's operations leave open: cases that are missing are opened, answered ones are closed.

Runs after every change of an operation, in its transaction, with job and operations locked. It can be repeated.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db.models import Q, QuerySet

from access.roles import Actor
from access.statements import Select
from dispatch.deriving import current
from dispatch.models import Operation
from dispatch.outcomes import is_overdue
from dispatch.states import NextStep, OperationState
from reconciliation import words
from reconciliation.casework import (
    BY_EVIDENCE,
    WENT_ON,
    Question,
    bring_forward,
    close_case,
    has_cases,
    open_case,
)
from reconciliation.locks import lock_case
from reconciliation.models import Case, CaseKind
from workflows.models import Job
from workflows.states import JobState

S = OperationState
_DOUBTFUL = (S.UNKNOWN, S.CONFLICTED)
_DOUBTS = (CaseKind.UNKNOWN_OUTCOME, CaseKind.CONFIRMATION_OVERDUE, CaseKind.CONFLICTED)
_UNANSWERED: dict[str, tuple[str, ...]] = {
    CaseKind.UNKNOWN_OUTCOME.value: (S.UNKNOWN, S.SUBMITTED),
    CaseKind.CONFIRMATION_OVERDUE.value: (S.UNKNOWN, S.SUBMITTED),
    CaseKind.CONFLICTED.value: (S.CONFLICTED,),
}
"""While an operation is in one of these, the question of such a case is not answered."""
_REVIEWED = (*_UNANSWERED, CaseKind.PARTIAL.value, CaseKind.SEND_BLOCKED.value)


def review(job: Job, actor: Actor, now: datetime) -> None:
    """Bring the job's cases about its operations up to date with them.

    Begins with the cases, which are few: a set of hundreds of operations is reviewed after each of its sends.
    """
    for case in _OPEN.all(job.pk) if has_cases(job) else ():
        answer = _answer(job, case)
        if answer is None:
            bring_forward(case, now)
        else:
            resolution, reason = answer
            locked = lock_case(case.pk)
            close_case(job=job, case=locked, resolution=resolution, reason=reason, actor=actor, now=now)
    if job.state == JobState.NEEDS_RECONCILIATION:
        _open_doubts(job, operations_of(job), actor, now)


def _open_cases(job: Any) -> QuerySet[Case]:
    """Those that ask about the job as a whole or about an operation of its latest proposal."""
    asked = Q(kind=CaseKind.PARTIAL.value) | Q(operation__in=current(job))
    cases = Case.objects.filter(asked, job=job, resolved_at__isnull=True, kind__in=_REVIEWED)
    return cases.select_related("operation").order_by("pk")


_OPEN = Select(_open_cases)


def _answer(job: Job, case: Case) -> tuple[str, str] | None:
    """What answers a case now, as its resolution and the reason; None while nothing does."""
    operation = case.operation
    if case.kind == CaseKind.PARTIAL:
        return None if job.state == JobState.NEEDS_RECONCILIATION else (WENT_ON, "")
    if operation is None:
        return None
    if case.kind == CaseKind.SEND_BLOCKED:
        return None if operation.next_step == NextStep.BLOCKED else (WENT_ON, "")
    if operation.state in _UNANSWERED[case.kind]:
        return None
    return BY_EVIDENCE, f"{operation.label} is {words.FATES[operation.state]}."


def operations_of(job: Job) -> list[Operation]:
    """The operations of the job's latest proposal that has any, with what their words need."""
    return list(current(job).select_related("receiver", "contract", "proposed"))


def doubt_as_told(operation: Operation) -> str:
    """What made the outcome a question, as the operation's rows say it."""
    last = operation.fate_note or "no answer that settles it"
    return f"{operation.label}: {last}."


def _open_doubts(job: Job, operations: list[Operation], actor: Actor, now: datetime) -> None:
    doubts = [o for o in operations if o.state in _DOUBTFUL]
    open_ones = Case.objects.filter(job=job, kind__in=_DOUBTS, resolved_at__isnull=True)
    asked = {(kind == CaseKind.CONFLICTED, o) for kind, o in open_ones.values_list("kind", "operation")}
    for operation in doubts:
        if (operation.state == S.CONFLICTED, operation.pk) in asked:
            continue
        kind, title = _question_of(operation)
        question = Question(kind, title, doubt_as_told(operation), actor.name, operation=operation)
        open_case(job=job, question=question, actor=actor, now=now)
    applied = [o for o in operations if o.state == S.CONFIRMED]
    under_way = [o for o in operations if o.state == S.SUBMITTED]
    stopped = [o for o in operations if o.state not in (S.CONFIRMED, S.SUBMITTED) and o not in doubts]
    if applied and stopped and not doubts and not under_way:
        _open_partial(job, applied, stopped, len(operations), actor, now)


def _question_of(operation: Operation) -> tuple[CaseKind, str]:
    """Of an operation in doubt: the kind of its case, and its title."""
    if operation.state == S.CONFLICTED:
        return CaseKind.CONFLICTED, words.conflicted(operation)
    if is_overdue(operation):
        return CaseKind.CONFIRMATION_OVERDUE, words.overdue(operation)
    return CaseKind.UNKNOWN_OUTCOME, words.unknown(operation)


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
