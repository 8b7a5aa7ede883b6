"""What a key mismatch stops: either our frozen bytes changed or two requests have one key, and both are faults of ours that
the next send of the same workflow may have too. Nothing of it is sent to that receiver until a person has answered.

Asked with the other checks of a send and once more by its mark, so that only what had its mark before the case was there
still goes out. Look-ups go on. The answer rings for what waited; a ring that is lost is made up for within a minute.
"""

from __future__ import annotations

from datetime import datetime

from access.statements import Asked, execute
from access.tenancy import require_scope
from dispatch import marker, permits
from dispatch.actions.receivers import sends_that_wait
from dispatch.models import Operation
from reconciliation.models import Case, CaseKind, Incident
from workflows.models import Job

HELD_BACK = "the receiver holds other content under a key of this workflow"
_CASES = f"""FROM reconciliation_case c JOIN workflows_job cj ON cj.id = c.job_id
  WHERE c.kind = '{CaseKind.KEY_MISMATCH.value}' AND c.resolved_at IS NULL"""
"""Written out: of a kind that is a parameter the server cannot know that the index `case_key_mismatch` has all of it."""
_GUARD = f"NOT EXISTS (SELECT {_CASES} AND c.receiver_id = o.receiver_id AND cj.workflow = j.workflow)"
_OPEN = f"SELECT min(c.id) {_CASES} AND c.receiver_id = %s AND cj.workflow = %s"


def stop_sends() -> None:
    """Put both questions where every send meets them."""
    permits.stops_sending(permits.Stop(_asked, why_not_send))
    marker.holds_back(HELD_BACK, _GUARD)


def why_not_send(job: Job, operation: Operation) -> str:
    """The oldest open case of a mismatch between the job's workflow and the operation's receiver, in a sentence; or ""."""
    require_scope()
    (oldest,) = execute(*_asked(job, operation)).fetchone()
    if oldest is None:
        return ""
    case = Case(pk=oldest)
    return (
        f"{operation.receiver.title} holds other content under a key of this workflow, and nothing of it is sent there"
        f" until {case.label} is answered."
    )


def waited_for(case: Case, job: Job, now: datetime) -> list[tuple[int, int]]:
    """The sends, with their jobs, that a case which has just been answered has kept waiting."""
    if case.kind != CaseKind.KEY_MISMATCH or case.receiver_id is None:
        return []
    return sends_that_wait(case.receiver_id, now, job__workflow=job.workflow)


def stopped_workflows(incident: Incident) -> list[str]:
    """The workflows of which nothing is sent for now because of open cases of an incident, in their order."""
    if incident.kind != CaseKind.KEY_MISMATCH:
        return []
    cases = Case.objects.filter(incident=incident, resolved_at__isnull=True)
    return list(cases.order_by("job__workflow").values_list("job__workflow", flat=True).distinct())


def _asked(job: Job, operation: Operation) -> Asked:
    return _OPEN, [operation.receiver_id, job.workflow]
