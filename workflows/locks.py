"""The only place that locks rows of this room. Global order: job → stage → work item → proposal → operation → case.

Within a table rows are locked in the order of their ids. What items wait for comes right after the items.
`docs/concurrency.md` says who takes what.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import connection

from access.refusals import NotFound
from access.statements import Asked, Select
from workflows.kinds import NOT_STEPS
from workflows.models import (
    EventSource,
    Expectation,
    ExternalEvent,
    Job,
    Limit,
    SharedLimit,
    StoredFile,
    WorkItem,
)
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES

_JOB = Select(lambda job: Job.objects.select_for_update(no_key=True, of=("self",)).filter(pk=job))


class NoSuchJob(NotFound):
    """There is no such job in this tenant."""


def job_asked(job_id: int) -> Asked:
    """What `lock_job` will ask, for who takes more locks after it in the same exchange."""
    return _JOB.asked(job_id)


def lock_job(job_id: int) -> Job:
    """The job's row, fresh and locked (NO KEY UPDATE) until the transaction ends. NoSuchJob if it is not there."""
    job = _JOB.first(job_id)
    if job is None:
        raise NoSuchJob(f"There is no job {job_id} here.")
    return job


def lock_unfinished(job: Job) -> int:
    """The items of a locked job's steps that are not done, locked in the order of their ids; how many there are."""
    states = [s.number for s in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)]
    query = WorkItem.objects.select_for_update(no_key=True, of=("self",))
    query = query.filter(job=job, state__in=states).exclude(stage__kind__in=NOT_STEPS)
    return len(query.order_by("pk").values_list("pk", flat=True))


def lock_items(item_ids: list[int]) -> list[WorkItem]:
    """Work items, fresh and locked in the order of their ids. The caller holds their job's lock."""
    query = WorkItem.objects.select_for_update(no_key=True, of=("self",))
    return list(query.filter(pk__in=item_ids).order_by("pk"))


def lock_expectations(ids: list[int]) -> list[Expectation]:
    """What items wait for, fresh and locked in the order of their ids. The caller holds their job's lock, and the
    locks of the items that it will change."""
    query = Expectation.objects.select_for_update(no_key=True, of=("self",))
    return list(query.filter(pk__in=ids).order_by("pk"))


def lock_unused_events(*, keys: list[str] | None = None, ids: list[int] | None = None) -> list[ExternalEvent]:
    """Events that no wait has used, by key or by id, fresh and locked in the order of their ids. Last of all, or alone."""
    rows = ExternalEvent.objects.select_for_update(no_key=True, of=("self",)).filter(used_by__isnull=True)
    rows = rows.filter(key__in=keys) if keys is not None else rows.filter(pk__in=ids or [])
    return list(rows.order_by("pk"))


def lock_source(name: str) -> EventSource | None:
    """The event source of this name if it has not ended, fresh and locked. Alone."""
    rows = EventSource.objects.select_for_update(no_key=True, of=("self",))
    return rows.filter(name=name, ended_at__isnull=True).first()


def lock_files(digests: Collection[str]) -> list[StoredFile]:
    """Kept files without their bytes, locked in the order of their ids: only a sweep minds. No lock comes before it."""
    query = StoredFile.objects.select_for_update(no_key=True, of=("self",)).defer("content")
    return list(query.filter(digest__in=digests).order_by("pk"))


def lock_name(kind: str, tenant_id: int, name: str) -> None:
    """Held until the transaction ends by whoever may make the one row of a kind and a name, before that row's lock.

    A row that is not there yet cannot be locked: without this the second of two who make it would break the constraint.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 2))", [f"{kind}:{tenant_id}:{name}"]
        )


def lock_limit(name: str) -> Limit | None:
    """The scope's tenant's limit of this name, fresh and locked, or None. Nothing else is locked after it."""
    return Limit.objects.select_for_update(no_key=True, of=("self",)).filter(name=name).first()


def lock_shared_limit(name: str) -> SharedLimit | None:
    """The installation's limit of this name, likewise."""
    return SharedLimit.objects.select_for_update(no_key=True, of=("self",)).filter(name=name).first()
