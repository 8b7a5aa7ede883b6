"""What the screens read of this room. Every query needs the tenant's scope (`reading(tenant_id)`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.db.models import Q

from dispatch.models import Operation
from dispatch.units import as_amount
from reconciliation.casepage import CasePage, case_page
from reconciliation.models import Case, ResolutionRequest
from reconciliation.narrowing import EVERYTHING, Narrowing, narrowed
from reconciliation.owners import at_work
from reconciliation.words import state_words

__all__ = [
    "CasePage", "CaseRow", "CasesPage", "case_page", "cases_of", "open_cases",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class CaseRow:
    """One line of a list of cases."""

    case_id: int
    label: str
    version: int
    kind: str
    state_words: str
    title: str
    job_id: int | None
    about: str
    """The job's label, or the statement's of a case without a job."""

    operation_label: str
    receiver: str
    owner_role: str
    assignee: str
    assignee_left: bool
    """Whether they do not work on cases any more: it is nobody's again."""

    opened_at: datetime
    due_at: datetime
    overdue: bool
    resubmit_safe_until: datetime | None
    nearest_at: datetime
    """The nearer of the two clocks: due, or the end of the time in which the same key is safe."""

    snoozed_until: datetime | None
    blocking: bool
    amount: Decimal | None
    currency: str
    second_asked: str
    """The verb that waits for a second person, or nothing."""

    resolution: str
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class CasesPage:
    """Some rows, and the cursor of what comes after them ("" at the end)."""

    rows: Sequence[CaseRow]
    after: str


def open_cases(
    *, now: datetime, person_id: int = 0, chosen: Narrowing = EVERYTHING, after: str = "", limit: int = 25
) -> CasesPage:
    """Open cases by the nearer of their two clocks, as far as they are chosen. At most 6 queries.

    `person_id`: whose cases "me" are. What is due is never due after the end of a key's time that is still to come
    (see `casework`), so the order by what is due is the order by the nearer clock. A cursor that is none begins at
    the top.
    """
    cases = narrowed(chosen, person_id=person_id, now=now)
    if (place := _place(after)) is not None:
        cases = cases.filter(
            Q(due_at__gt=place[0]) | Q(due_at=place[0], pk__gt=place[1]), due_at__gte=place[0]
        )
    found = list(_with_names(cases).order_by("due_at", "pk")[: limit + 1])
    rows = _rows(found[:limit], now)
    return CasesPage(rows, _cursor(found[limit - 1]) if len(found) > limit else "")


def cases_of(job_id: int, *, now: datetime) -> list[CaseRow]:
    """Every case of a job, open ones first, then the newest. At most 3 queries."""
    cases = list(_with_names(Case.objects.filter(job_id=job_id)).order_by("-pk"))
    return _rows(sorted(cases, key=lambda c: c.resolved_at is not None), now)


def cases_of_statement(statement_id: int, *, now: datetime) -> list[CaseRow]:
    """Every case about a statement's lines, the newest first. At most 3 queries."""
    return _rows(list(_with_names(Case.objects.filter(statement_id=statement_id)).order_by("-pk")), now)


def _with_names(cases: Any) -> Any:
    rows = cases.select_related(
        "job", "statement", "assignee", "operation", "operation__proposed", "receiver"
    )
    return rows.defer("job__input", "operation__proposed__body")


def _rows(cases: Sequence[Case], now: datetime) -> list[CaseRow]:
    open_requests = ResolutionRequest.objects.filter(case__in=[c.pk for c in cases], closed_at__isnull=True)
    asked = dict(open_requests.values_list("case_id", "verb"))
    working = at_work() if any(c.assignee_id for c in cases) else frozenset()
    return [_row(case, asked.get(case.pk, ""), working, now) for case in cases]


def _about(case: Case) -> str:
    about = case.job or case.statement
    return "" if about is None else str(about.label)


def _row(case: Case, asked: str, working: frozenset[int], now: datetime) -> CaseRow:
    operation = case.operation
    safe_until = operation.resubmit_safe_until if operation is not None else None
    clocks = [case.due_at, *([safe_until] if safe_until is not None and safe_until > now else [])]
    return CaseRow(
        case_id=case.pk,
        label=case.label,
        version=case.version,
        kind=case.kind,
        state_words=state_words(case.kind),
        title=case.title,
        job_id=case.job_id,
        about=_about(case),
        operation_label=operation.label if operation is not None else "",
        receiver=case.receiver.title if case.receiver is not None else "",
        owner_role=case.owner_role,
        assignee=case.assignee.username if case.assignee else "",
        assignee_left=case.assignee_id is not None and case.assignee_id not in working,
        opened_at=case.opened_at,
        due_at=case.due_at,
        overdue=case.resolved_at is None and case.due_at <= now,
        resubmit_safe_until=safe_until,
        nearest_at=min(clocks),
        snoozed_until=case.snoozed_until,
        blocking=case.blocking,
        amount=_amount(operation),
        currency=operation.currency if operation is not None else "",
        second_asked=asked,
        resolution=case.resolution,
        resolved_at=case.resolved_at,
    )


def _amount(operation: Operation | None) -> Decimal | None:
    """As approved. A list reads it off the operation, where it was written from the document; a case reads the document."""
    if operation is None or operation.amount_minor is None:
        return None
    return as_amount(operation.amount_minor, operation.currency)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _cursor(case: Case) -> str:
    return f"{(case.due_at - _EPOCH) // timedelta(microseconds=1)}-{case.pk}"


def _place(cursor: str) -> tuple[datetime, int] | None:
    micros, _, pk = cursor.partition("-")
    if not (micros.isascii() and micros.isdigit() and pk.isascii() and pk.isdigit()):
        return None
    if len(micros) > 17 or len(pk) > 18:
        return None
    return _EPOCH + timedelta(microseconds=int(micros)), int(pk)
