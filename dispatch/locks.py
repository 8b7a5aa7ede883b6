"""The only place that locks rows of this room. Order: job → (stage, work item) → proposal → operation → submission."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from access.refusals import NotFound
from access.statements import Select, Values, ahead, execute
from approvals.locks import database_clock as database_clock
from approvals.models import Proposal
from dispatch.models import Operation, Receiver, Submission
from workflows.locks import job_asked, lock_job
from workflows.models import Job


class NoSuchOperation(NotFound):
    """There is no such operation in this tenant."""


class NoSuchReceiver(NotFound):
    """There is no such receiver in this tenant."""


def job_of(operation_id: int) -> int:
    """The job of an operation, read without a lock: it never changes. Raises NoSuchOperation."""
    found = _JOB_OF.first(operation_id)
    if found is None:
        raise NoSuchOperation(f"There is no operation {operation_id} here.")
    return int(found[0])


def lock_operations(job: Job) -> list[Operation]:
    """Every operation of a locked job, fresh and locked, in the order of their ids. For what changes many of them."""
    return _ALL.all(job.pk)


def lock_operation(job: Job, operation_id: int) -> Operation:
    """One operation of a locked job, fresh and locked. Its siblings stand still: whoever moves one holds the job.

    Raises NoSuchOperation.
    """
    operation = _ONE.first(job.pk, operation_id)
    if operation is None:
        raise NoSuchOperation(f"There is no operation {operation_id} here.")
    return operation


def lock_job_and_operation(operation_id: int) -> tuple[Job, Operation]:
    """Both, in the global order. Raises NoSuchOperation."""
    job = lock_job(job_of(operation_id))
    return job, lock_operation(job, operation_id)


@dataclass(frozen=True, slots=True)
class Locked:
    """A job, its operation, the operation's proposal and its open submission, if there is one: fresh and locked."""

    job: Job
    proposal: Proposal
    operation: Operation
    submission: Submission | None


def lock_all(job_id: int, operation_id: int) -> Locked:
    """Job → proposal → operation → open submission, in one exchange. Raises NoSuchJob, NoSuchOperation."""
    with ahead(
        job_asked(job_id),
        _PROPOSAL_OF.asked(operation_id),
        _ONE.asked(job_id, operation_id),
        _OPEN_SUBMISSION.asked(operation_id),
    ):
        job = lock_job(job_id)
        proposal = lock_proposal_of(operation_id)
        operation = lock_operation(job, operation_id)
        return Locked(job, proposal, operation, lock_open_submission(operation))


def lock_sent(job_id: int, operation_id: int, submission_id: int) -> tuple[Job, Operation, Submission]:
    """Job → operation → submission, in one exchange. Raises NoSuchJob, NoSuchOperation."""
    with ahead(job_asked(job_id), _ONE.asked(job_id, operation_id), _SUBMISSION.asked(submission_id)):
        job = lock_job(job_id)
        return job, lock_operation(job, operation_id), lock_submission(submission_id)


def _operations() -> QuerySet[Operation]:
    query = Operation.objects.select_for_update(no_key=True, of=("self",))
    return query.select_related("receiver", "contract", "proposed")


def lock_open_submission(operation: Operation) -> Submission | None:
    """The operation's open submission, fresh and locked, or None. A mark that is being set is waited for."""
    return _OPEN_SUBMISSION.first(operation.pk)


def lock_submission(submission_id: int) -> Submission:
    """One submission, fresh and locked. The caller holds its operation's lock."""
    (submission,) = _SUBMISSION.all(submission_id)
    return submission


def lock_receiver(receiver_id: int) -> Receiver:
    """A receiver's row, fresh and locked. Raises NoSuchReceiver."""
    query = Receiver.objects.select_for_update(no_key=True, of=("self",))
    receiver = query.filter(pk=receiver_id).first()
    if receiver is None:
        raise NoSuchReceiver(f"There is no receiver {receiver_id} here.")
    return receiver


def lock_proposal_of(operation_id: int) -> Proposal:
    """An operation's proposal, fresh and locked. The caller holds their job's lock. Raises NoSuchOperation."""
    proposal = _PROPOSAL_OF.first(operation_id)
    if proposal is None:
        raise NoSuchOperation(f"There is no operation {operation_id} here.")
    return proposal


def clock_and_last_submission(operation: Operation) -> tuple[datetime, int]:
    """The database's time at this moment, and the highest number of a locked operation's submissions, or 0."""
    text = (
        "SELECT clock_timestamp(), coalesce(max(number), 0) FROM dispatch_submission WHERE operation_id = %s"
    )
    at, number = execute(text, [operation.pk]).fetchone()
    return at, int(number)


def _submissions() -> QuerySet[Submission]:
    return Submission.objects.select_for_update(no_key=True, of=("self",)).order_by("pk")


_PROPOSAL_OF = Select(
    lambda operation: (
        Proposal.objects.select_for_update(no_key=True, of=("self",))
        .select_related("policy", "job")
        .filter(pk__in=Operation.objects.filter(pk=operation).values("proposed__proposal_id"))
    )
)
_JOB_OF = Values(lambda operation: Operation.objects.filter(pk=operation).values_list("job_id"))
_ALL = Select(lambda job: _operations().filter(job=job).order_by("pk"))
_ONE = Select(lambda job, operation: _operations().filter(job=job, pk=operation))
_OPEN_SUBMISSION = Select(
    lambda operation: _submissions().filter(operation=operation, closed_at__isnull=True)[:1]
)
_SUBMISSION = Select(lambda submission: _submissions().filter(pk=submission))
