"""Going on without an item that stopped, where its step allows it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows import journal
from workflows.models import WorkItem
from workflows.states import ItemState
from workflows.stopped import lock_stopped, why_not_skip


class CannotSkip(Conflict):
    """The item is not stopped (any more), or its step does not allow the job to go on without it."""


@dataclass(frozen=True, slots=True)
class Skipped:
    """The item that the job goes on without."""

    job_id: int
    item_id: int


def skip_item(*, tenant_id: int, item_id: int, person_id: int, reason: str, now: datetime) -> Skipped:
    """Leave a stopped item out: later steps' lists lack it, and it is listed as skipped. Locks job → item.

    Whoever skips has a hand in what is proposed. Where it was the last that its stage waited for, the sweep opens what
    follows. A repeat is CannotSkip. Raises NotPermitted, NothingToRetry, CannotSkip, Unprocessable (a reason).
    """
    with acting(tenant_id):
        return skip_item_inside(item_id=item_id, person_id=person_id, reason=reason, now=now)


def skip_item_inside(
    *, item_id: int, person_id: int, reason: str, now: datetime, seen: int | None = None, bulk: int = 0
) -> Skipped:
    """The same inside an action's transaction, which may hold the job's lock already but no case's."""
    if not reason.strip():
        raise Unprocessable("Say why the job can go on without it.")
    job, item = lock_stopped(item_id, seen=seen)
    actor = authority.require(person_id, Role.OPERATOR)
    if said := why_not_skip(job, item):
        raise CannotSkip(said)
    WorkItem.objects.filter(pk=item.pk).update(
        state=ItemState.SKIPPED.number, finished_at=now, next_attempt_at=None
    )
    evidence = {"item": item.pk, "stage": item.stage.name, "key": item.key, "reason": reason}
    journal.record(job=job, event="item.skipped", actor=actor, evidence={**evidence, **journal.part_of(bulk)})
    return Skipped(job_id=job.pk, item_id=item.pk)
