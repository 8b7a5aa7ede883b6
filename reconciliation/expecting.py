"""What was sent and is expected to be confirmed: nobody has to act, and no count of what needs a person holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef, QuerySet

from dispatch.models import Operation
from dispatch.states import NextStep, OperationState
from reconciliation.models import Case

PAGE = 25


@dataclass(frozen=True, slots=True)
class ExpectedRow:
    """One operation that is under way. `then`: what happens by itself, and when."""

    label: str
    title: str
    job_id: int
    job_label: str
    receiver: str
    sent_at: datetime | None
    then: str
    then_at: datetime | None


@dataclass(frozen=True, slots=True)
class ExpectedPage:
    """Some of them, oldest first. `after`: where the next page begins, or 0."""

    rows: Sequence[ExpectedRow]
    after: int


def expected() -> QuerySet[Operation]:
    """Operations that are under way and about which nothing is asked."""
    asked = Case.objects.filter(job=OuterRef("job"), operation=OuterRef("pk"), resolved_at__isnull=True)
    return Operation.objects.filter(~Exists(asked), state=OperationState.SUBMITTED)


def expected_page(*, after: int = 0) -> ExpectedPage:
    """A page of them. One query."""
    names = ("job", "receiver", "proposed")
    rows = expected().filter(pk__gt=after).select_related(*names).defer("job__input", "proposed__body")
    found = list(rows.order_by("pk")[: PAGE + 1])
    return ExpectedPage([_row(o) for o in found[:PAGE]], found[PAGE - 1].pk if len(found) > PAGE else 0)


def _row(operation: Operation) -> ExpectedRow:
    asks = operation.next_step == NextStep.LOOK_UP
    return ExpectedRow(
        label=operation.label,
        title=operation.proposed.title,
        job_id=operation.job_id,
        job_label=operation.job.label,
        receiver=operation.receiver.title,
        sent_at=operation.first_may_have_been_sent_at,
        then="is asked" if asks else "is due" if operation.next_step_at else "",
        then_at=operation.next_step_at,
    )
