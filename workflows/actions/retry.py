"""A person's way on from an item that stopped: grant attempts, or give the job up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows import items, journal
from workflows.locks import lock_items, lock_job
from workflows.models import WorkItem
from workflows.states import STUCK_ITEM_STATES, ItemState, JobState


class NothingToRetry(Conflict):
    """The item is not stopped (any more)."""


class CannotFail(Conflict):
    """The job is in a state that cannot be given up this way."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The item that will be tried again, and how often at most."""

    job_id: int
    item_id: int
    attempts: int


def grant_attempts(
    *, tenant_id: int, item_id: int, person_id: int, attempts: int, reason: str, now: datetime
) -> Granted:
    """Try a stopped item again up to `attempts` more times; every checkpoint is kept. Locks job → item.

    Raises NotPermitted, NothingToRetry, Unprocessable (1 to 20 attempts; a reason).
    """
    with acting(tenant_id):
        return grant_attempts_inside(item_id=item_id, person_id=person_id, attempts=attempts, reason=reason)


def grant_attempts_inside(*, item_id: int, person_id: int, attempts: int, reason: str) -> Granted:
    """The same inside an action's transaction, which may hold the job's lock already but no case's."""
    if not 1 <= attempts <= 20:
        raise Unprocessable("Grant between 1 and 20 attempts.")
    if not reason.strip():
        raise Unprocessable("Say why it should work now.")
    job_id = WorkItem.objects.filter(pk=item_id).values_list("job_id", flat=True).first()
    if job_id is None:
        raise NothingToRetry("There is no such step here.")
    job = lock_job(job_id)
    actor = authority.require(person_id, Role.OPERATOR)
    (item,) = lock_items([item_id])
    if item.state_name not in STUCK_ITEM_STATES:
        raise NothingToRetry(
            f"This step is {item.state_name.lower().replace('_', ' ')}; there is nothing to retry."
        )
    WorkItem.objects.filter(pk=item.pk).update(
        state=ItemState.READY.number,
        attempts_limit=item.attempts + attempts,
        reported_at=None,
        finished_at=None,
        next_attempt_at=None,
    )
    with connection.cursor() as cursor:
        cursor.execute("NOTIFY counterfoil_work")
    journal.record(
        job=job,
        event="attempts.granted",
        actor=actor,
        evidence={"item": item.pk, "key": item.key, "attempts": attempts, "reason": reason},
    )
    return Granted(job_id=job.pk, item_id=item.pk, attempts=attempts)


def fail_job(*, tenant_id: int, job_id: int, person_id: int, reason: str, now: datetime) -> None:
    """Give a job up before anything was sent: FAILED, its open items cancelled. Locks job → items.

    Raises NotPermitted, CannotFail, Unprocessable (a reason).
    """
    with acting(tenant_id):
        fail_job_inside(job_id=job_id, person_id=person_id, reason=reason)


def fail_job_inside(*, job_id: int, person_id: int, reason: str) -> None:
    """The same inside an action's transaction, which holds no case's lock."""
    if not reason.strip():
        raise Unprocessable("Say why the job is given up.")
    job = lock_job(job_id)
    actor = authority.require(person_id, Role.OPERATOR)
    if job.state not in (JobState.RECEIVED, JobState.VALIDATED, JobState.READY_TO_COMMIT):
        raise CannotFail(f"{job.label} is {job.state}; it cannot simply be given up.")
    items.cancel_open(job=job)
    journal.transition(
        job=job, to=JobState.FAILED, event="job.given_up", actor=actor, evidence={"reason": reason}
    )
