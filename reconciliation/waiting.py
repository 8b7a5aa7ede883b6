"""Why a job waits, where the answer is a case."""

from __future__ import annotations

from reconciliation.models import Case
from reconciliation.owners import at_work
from reconciliation.words import clock
from workflows.models import Job

RANK = 30


def why_it_waits(job: Job) -> str | None:
    """ "waits for an operator: RC-0417, due Fri 13 Mar, 16:00", by the blocking case that is due first."""
    cases = Case.objects.filter(job=job, resolved_at__isnull=True, blocking=True)
    case = cases.select_related("assignee").order_by("due_at", "pk").first()
    if case is None:
        return None
    article = "an" if case.owner_role[0] in "aeiou" else "a"
    has_it = case.assignee is not None and case.assignee_id in at_work()
    who = case.assignee.username if case.assignee is not None and has_it else f"{article} {case.owner_role}"
    return f"waits for {who}: {case.label}, due {clock(case.due_at, case.tenant_id)}"
