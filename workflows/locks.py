"""The only place that locks rows of this room. Global order: job → stage → work item → proposal → operation → case.

Within a table rows are locked in the order of their ids. `docs/concurrency.md` says who takes what.
"""

from __future__ import annotations

from access.refusals import NotFound
from workflows.models import Job, WorkItem


class NoSuchJob(NotFound):
    """There is no such job in this tenant."""


def lock_job(job_id: int) -> Job:
    """The job's row, fresh and locked (NO KEY UPDATE) until the transaction ends. NoSuchJob if it is not there."""
    job = Job.objects.select_for_update(no_key=True, of=("self",)).filter(pk=job_id).first()
    if job is None:
        raise NoSuchJob(f"There is no job {job_id} here.")
    return job


def lock_items(item_ids: list[int]) -> list[WorkItem]:
    """Work items, fresh and locked in the order of their ids. The caller holds their job's lock."""
    query = WorkItem.objects.select_for_update(no_key=True, of=("self",))
    return list(query.filter(pk__in=item_ids).order_by("pk"))
