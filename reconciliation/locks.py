"""The only place that locks cases. Order: job → work item → proposal → operation → case.

Whatever changes a case holds the lock of its job, so what was read of a case after that lock stays so.
"""

from __future__ import annotations

from access.refusals import NotFound
from dispatch import locks as dispatch_locks
from dispatch.models import Operation
from reconciliation.models import Bulk, BulkState, Case, ResolutionRequest
from workflows.locks import lock_job
from workflows.models import Job


class NoSuchCase(NotFound):
    """There is no such case in this tenant."""


class NoSuchRequest(NotFound):
    """There is no such request in this tenant."""


class NoSuchEvidence(NotFound):
    """The case has no such evidence, or it has no file."""


class NoSuchBulk(NotFound):
    """There is no such bulk in this tenant."""


def lock_bulk(bulk_id: int) -> Bulk:
    """A bulk's row, fresh and locked, alone: before any other row, or after none. Raises NoSuchBulk."""
    bulk = Bulk.objects.select_for_update(no_key=True, of=("self",)).filter(pk=bulk_id).first()
    if bulk is None:
        raise NoSuchBulk(f"There is no bulk {bulk_id} here.")
    return bulk


def lock_planned(person_id: int) -> list[int]:
    """The bulks that a person has planned and nobody has confirmed, fresh and locked for their removal, by id."""
    rows = Bulk.objects.select_for_update(of=("self",)).filter(planned_by=person_id, state=BulkState.PLANNED)
    return list(rows.order_by("pk").values_list("pk", flat=True))


def job_of(case_id: int) -> int:
    """The job of a case, read without a lock: it never changes. Raises NoSuchCase."""
    job_id = Case.objects.filter(pk=case_id).values_list("job_id", flat=True).first()
    if job_id is None:
        raise NoSuchCase(f"There is no case {case_id} here.")
    return int(job_id)


def case_of(request_id: int) -> int:
    """The case of a request for a second person. Raises NoSuchRequest."""
    case_id = ResolutionRequest.objects.filter(pk=request_id).values_list("case_id", flat=True).first()
    if case_id is None:
        raise NoSuchRequest(f"There is no request {request_id} here.")
    return int(case_id)


def lock_case(case_id: int) -> Case:
    """The case's row, fresh and locked (NO KEY UPDATE). The caller holds its job's lock. Raises NoSuchCase."""
    case = Case.objects.select_for_update(no_key=True, of=("self",)).filter(pk=case_id).first()
    if case is None:
        raise NoSuchCase(f"There is no case {case_id} here.")
    return case


def lock_job_and_read_case(case_id: int) -> tuple[Job, Case]:
    """The job locked and the case read after it, for actions that lock work items before the case."""
    job = lock_job(job_of(case_id))
    return job, Case.objects.get(pk=case_id)


def lock_job_and_case(case_id: int) -> tuple[Job, Case]:
    """Both, in the global order, for what touches no operation."""
    job = lock_job(job_of(case_id))
    return job, lock_case(case_id)


def lock_with_operations(case_id: int) -> tuple[Job, list[Operation], Case]:
    """The job, all of its operations and the case, in the global order."""
    job = lock_job(job_of(case_id))
    operations = dispatch_locks.lock_operations(job)
    return job, operations, lock_case(case_id)


def lock_open_request(case: Case) -> ResolutionRequest | None:
    """The open request of a locked case, or None."""
    query = ResolutionRequest.objects.select_for_update(no_key=True, of=("self",))
    return query.filter(case=case, closed_at__isnull=True).order_by("pk").first()
