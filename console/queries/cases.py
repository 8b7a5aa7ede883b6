"""The cases that a job's page links to."""

from __future__ import annotations

from reconciliation.models import Case
from workflows.models import Job


def open_case_of_item(item_id: int) -> Case | None:
    """The open case that asks about an item, if there is one."""
    cases = Case.objects.filter(item=item_id, resolved_at__isnull=True)
    return cases.order_by("due_at", "pk").first()


SHOWN = 5


def open_cases_of(job: Job) -> tuple[list[Case], int]:
    """The most urgent open cases of a job, and how many more there are: a fan-out can stop in thousands of items."""
    cases = Case.objects.filter(job=job, resolved_at__isnull=True)
    first = list(cases.order_by("due_at", "pk")[: SHOWN + 1])
    return first[:SHOWN], cases.count() - SHOWN if len(first) > SHOWN else 0
