"""Hold: no claims and no sends until it is lifted. No clock stops."""

from __future__ import annotations

from datetime import datetime

from access import authority
from access.refusals import Conflict
from access.roles import Actor, Role
from access.tenancy import acting
from workflows import items, journal
from workflows.locks import lock_job
from workflows.models import Job, JournalEntry
from workflows.states import ENDED


class NotHoldable(Conflict):
    """The job has ended, or is already as asked."""


def hold_job(*, tenant_id: int, job_id: int, person_id: int, reason: str, now: datetime) -> None:
    """Hold a job. Locks job → items. Raises NoSuchJob, NotPermitted, NotHoldable."""
    with acting(tenant_id):
        job = lock_job(job_id)
        actor = authority.require(person_id, Role.ADMIN, Role.OPERATOR)
        if job.state in ENDED:
            raise NotHoldable(f"{job.label} has ended; there is nothing to hold.")
        if job.held_at is not None:
            raise NotHoldable(f"{job.label} is already held by {job.held_by}.")
        hold_locked(job=job, actor=actor, reason=reason, now=now)


def hold_locked(*, job: Job, actor: Actor, reason: str, now: datetime) -> None:
    """The write of `hold_job`, inside the caller's transaction: of a locked job that has not ended and is not held."""
    Job.objects.filter(pk=job.pk).update(held_at=now, held_by=actor.name, hold_reason=reason[:1000])
    items.set_held(job=job, held=True)
    journal.record(job=job, event="job.held", actor=actor, evidence={"reason": reason})


def is_held_by_a_person(job: Job) -> bool:
    """Whether it is held, and somebody asked for that: what the machine holds (`held_for`, a restore) is no person's."""
    if job.held_at is None or job.held_for:
        return False
    held = JournalEntry.objects.filter(job=job, event="job.held").order_by("-sequence").first()
    return held is not None and held.actor_id != 0


def release_job(*, tenant_id: int, job_id: int, person_id: int, now: datetime) -> None:
    """Lift a hold. Locks job → items. Raises NoSuchJob, NotPermitted, NotHoldable."""
    with acting(tenant_id):
        release_job_inside(job_id=job_id, person_id=person_id)


def release_job_inside(*, job_id: int, person_id: int, reason: str = "", bulk: int = 0) -> None:
    """The same inside an action's transaction, which holds no case's lock."""
    job = lock_job(job_id)
    actor = authority.require(person_id, Role.ADMIN, Role.OPERATOR)
    if job.held_at is None:
        raise NotHoldable(f"{job.label} is not held.")
    Job.objects.filter(pk=job.pk).update(held_at=None, held_by="", hold_reason="", held_for="")
    items.set_held(job=job, held=False)
    evidence = {"held_by": job.held_by, **({"reason": reason} if reason else {}), **journal.part_of(bulk)}
    journal.record(job=job, event="job.released", actor=actor, evidence=evidence)
