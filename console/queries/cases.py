"""The cases that a job's page links to."""

from __future__ import annotations

from reconciliation.models import Case
from workflows.models import Job


def open_case_of_item(item_id: int) -> Case | None:
    """The open case that asks about an item, if there is one."""
    cases = Case.objects.filter(item=item_id, resolved_at__isnull=True)
    return cases.order_by("due_at", "pk").first()


def open_cases_of(job: Job) -> list[Case]:
    """Open cases of a job, most urgent first."""
    return list(Case.objects.filter(job=job, resolved_at__isnull=True).order_by("due_at", "pk"))
