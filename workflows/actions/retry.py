"""A person's way on from an item that stopped: grant attempts, or give the job up."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from web.vocabulary import named
from workflows import items, journal
from workflows.locks import lock_job
from workflows.states import JobState
from workflows.stopped import NothingToRetry, check_attempts, lock_stopped, put_back, why_not_again

__all__ = ["CannotFail", "Granted", "NothingToRetry", "fail_job", "grant_attempts"]


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

    A limit on elapsed time starts again. Raises NotPermitted, NothingToRetry, Unprocessable (1 to 20 attempts; a reason).
    """
    with acting(tenant_id):
        return grant_attempts_inside(item_id=item_id, person_id=person_id, attempts=attempts, reason=reason)


def grant_attempts_inside(
    *, item_id: int, person_id: int, attempts: int, reason: str, seen: int | None = None, bulk: int = 0
) -> Granted:
    """The same inside an action's transaction, which may hold the job's lock already but no case's.

    `seen`: see `lock_stopped`. `bulk`: the bulk that it is a part of.
    """
    check_attempts(attempts)
    if not reason.strip():
        raise Unprocessable("Say why it should work now.")
    job, item = lock_stopped(item_id, seen=seen)
    actor = authority.require(person_id, Role.OPERATOR)
    if said := why_not_again(job, item):
        raise NothingToRetry(said)
    put_back(items=[item.pk], attempts=attempts)
    journal.record(
        job=job,
        event="attempts.granted",
        actor=actor,
        evidence={
            "item": item.pk,
            "stage": item.stage.name,
            "key": item.key,
            "attempts": attempts,
            "reason": reason,
            **journal.part_of(bulk),
        },
    )
    return Granted(job_id=job.pk, item_id=item.pk, attempts=attempts)


def fail_job(*, tenant_id: int, job_id: int, person_id: int, reason: str, now: datetime) -> None:
    """Give a job up before anything was sent: FAILED, its open items cancelled. Locks job → items.

    Raises NotPermitted, CannotFail, Unprocessable (a reason).
    """
    with acting(tenant_id):
        fail_job_inside(job_id=job_id, person_id=person_id, reason=reason)


def fail_job_inside(*, job_id: int, person_id: int, reason: str, bulk: int = 0) -> None:
    """The same inside an action's transaction, which holds no case's lock."""
    if not reason.strip():
        raise Unprocessable("Say why the job is given up.")
    job = lock_job(job_id)
    actor = authority.require(person_id, Role.OPERATOR)
    if job.state not in (JobState.RECEIVED, JobState.VALIDATED, JobState.READY_TO_COMMIT):
        raise CannotFail(f"{job.label} is {named(job.state)}; it cannot simply be given up.")
    items.cancel_open(job=job)
    journal.transition(
        job=job,
        to=JobState.FAILED,
        event="job.given_up",
        actor=actor,
        evidence={"reason": reason, **journal.part_of(bulk)},
    )
