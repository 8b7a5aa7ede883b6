"""The only place that locks cases. Order: job → work item → proposal → operation → case. A statement stands before its case.

Whatever changes a case holds the lock of its job, or of its statement where it has no job, so what was read of a case
after that lock stays so.
"""

from __future__ import annotations

from access.refusals import Conflict, NotFound
from dispatch import locks as dispatch_locks
from dispatch.models import Operation
from reconciliation.models import Bulk, BulkState, Case, ResolutionRequest
from statements.locks import lock_statement
from statements.models import Statement
from workflows.locks import lock_job
from workflows.models import Job


class NoSuchCase(NotFound):
    """There is no such case in this tenant."""


class NotOfAJob(Conflict):
    """The case asks about the lines of a statement: what is done about jobs does not answer it."""


class NotOfAStatement(Conflict):
    """The case asks about a job: it has no lines to set aside."""


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
    """The job of a case, read without a lock: it never changes. Raises NoSuchCase, NotOfAJob."""
    case = _read(case_id)
    if case.job_id is None:
        raise NotOfAJob(f"{case.label} asks about lines of a statement: match them, or set them aside.")
    return case.job_id


def _read(case_id: int) -> Case:
    case = Case.objects.filter(pk=case_id).first()
    if case is None:
        raise NoSuchCase(f"There is no case {case_id} here.")
    return case


def case_of(request_id: int) -> int:
    """The case of a request for a second person. Raises NoSuchRequest."""
    case_id = ResolutionRequest.objects.filter(pk=request_id).values_list("case_id", flat=True).first()
    if case_id is None:
        raise NoSuchRequest(f"There is no request {request_id} here.")
    return int(case_id)


def lock_case(case_id: int) -> Case:
    """The case's row, fresh and locked (NO KEY UPDATE). The caller holds its job's or its statement's lock. Raises NoSuchCase."""
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


def is_of_a_statement(case_id: int) -> bool:
    """Whether a case asks about lines, and not about a job: it never changes. Raises NoSuchCase."""
    return _read(case_id).statement_id is not None


def lock_asked(case_id: int) -> tuple[Job | None, Case]:
    """The case with what it is about, in the global order: its job, or its statement, for what touches neither."""
    case = _read(case_id)
    if case.statement_id is None:
        return lock_job_and_case(case_id)
    lock_statement(case.statement_id)
    return None, lock_case(case_id)


def lock_statement_and_case(case_id: int) -> tuple[Statement, Case]:
    """Both, in the global order. Raises NoSuchCase, NotOfAStatement."""
    case = _read(case_id)
    if case.statement_id is None:
        raise NotOfAStatement(f"{case.label} asks about a job, not about lines of a statement.")
    return lock_statement(case.statement_id), lock_case(case_id)


def lock_open_case_of(statement: Statement) -> Case | None:
    """The open case about the lines of a locked statement, locked, or None."""
    rows = Case.objects.select_for_update(no_key=True, of=("self",))
    return rows.filter(statement=statement, resolved_at__isnull=True).order_by("pk").first()


def lock_with_operations(case_id: int) -> tuple[Job, list[Operation], Case]:
    """The job, all of its operations and the case, in the global order."""
    job = lock_job(job_of(case_id))
    operations = dispatch_locks.lock_operations(job)
    return job, operations, lock_case(case_id)


def lock_open_request(case: Case) -> ResolutionRequest | None:
    """The open request of a locked case, or None."""
    query = ResolutionRequest.objects.select_for_update(no_key=True, of=("self",))
    return query.filter(case=case, closed_at__isnull=True).order_by("pk").first()
