"""Cancelling a job: at once before anything is sent, a request from then on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict, NotPermitted
from access.roles import ActorKind, Role
from access.tenancy import acting
from workflows import items, journal
from workflows.locks import lock_job
from workflows.models import Job
from workflows.states import BEFORE_SENDING, ENDED, JobState


class AlreadyEnded(Conflict):
    """The job had ended before the cancel arrived."""


@dataclass(frozen=True, slots=True)
class CancelResult:
    """`ended`: the job is CANCELLED; else the request is kept and the job is stopping."""

    ended: bool


def cancel_job(*, tenant_id: int, job_id: int, person_id: int, reason: str, now: datetime) -> CancelResult:
    """Cancel a job, or ask for it where something may have been sent.

    Locks job → items. A repeat changes nothing. Raises NoSuchJob, NotPermitted, AlreadyEnded.
    """
    with acting(tenant_id):
        return cancel_job_inside(job_id=job_id, person_id=person_id, reason=reason, now=now)


def cancel_job_inside(
    *, job_id: int, person_id: int, reason: str, now: datetime, bulk: int = 0
) -> CancelResult:
    """The same inside an action's transaction, which holds no case's lock."""
    job = lock_job(job_id)
    if job.state in ENDED:
        raise AlreadyEnded(f"{job.label} has already ended; nothing was stopped.")
    own = job.submitted_by_id == person_id and job.state in BEFORE_SENDING[:-1]
    actor = authority.require(person_id, Role.ADMIN, *([Role.SUBMITTER] if own else []))
    evidence = {"reason": reason, **journal.part_of(bulk)}
    if job.state in BEFORE_SENDING:
        items.cancel_open(job=job)
        journal.transition(
            job=job, to=JobState.CANCELLED, event="job.cancelled", actor=actor, evidence=evidence
        )
        return CancelResult(ended=True)
    if actor.kind is not ActorKind.ADMIN:
        raise NotPermitted(
            "Something may have been sent already: only an admin may ask to stop this job now."
        )
    if job.cancel_requested_at is None:
        Job.objects.filter(pk=job.pk).update(
            cancel_requested_at=now, cancel_requested_by=actor.name, cancel_reason=reason[:1000]
        )
        job.cancel_requested_at, job.cancel_requested_by, job.cancel_reason = now, actor.name, reason
        journal.record(job=job, event="cancel.requested", actor=actor, evidence=evidence)
    return CancelResult(ended=job.state in ENDED)
