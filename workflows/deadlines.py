"""A job's deadline: when it passes while the job is still being prepared, the job is held and a person is asked.

What was saved stays, what runs may finish; lifting the hold lets it go on without a deadline.
"""

from __future__ import annotations

from datetime import datetime

from django.db import connection
from django.utils import timezone

from access.roles import WORKER
from access.tenancy import acting
from workflows import clock, items, journal, machines
from workflows.claims import Claim, Done, Wait
from workflows.locks import lock_job
from workflows.models import Job
from workflows.states import JobState

MACHINE = "deadline"


def watch(job: Job) -> None:
    """Have the deadline looked at when it comes. In the transaction that submits the job."""
    if job.deadline_at is not None:
        machines.ring(job=job, machine=MACHINE, key="1", at=job.deadline_at)


def begin_again(job: Job, now: datetime) -> dict[str, str]:
    """Evidence for a locked job's journal: a deadline that has passed lies as far ahead again as when it was submitted."""
    if job.deadline_at is None or job.deadline_at > now:
        return {}
    deadline = now + (job.deadline_at - job.created_at)
    Job.objects.filter(pk=job.pk).update(deadline_at=deadline)
    job.deadline_at = deadline
    return {"deadline_at": deadline.isoformat()}


def look(claim: Claim) -> Done | Wait:
    """The machine's handler. Locks job → items."""
    with acting(claim.tenant_id):
        job = lock_job(claim.job_id)
        if job.deadline_at is None or job.state not in (JobState.RECEIVED, JobState.VALIDATED):
            return Done()
        with connection.cursor() as cursor:
            cursor.execute("SELECT clock_timestamp() >= %s", [job.deadline_at])
            if not cursor.fetchone()[0]:
                return Wait(at=job.deadline_at)
        told = f"its deadline of {timezone.localtime(job.deadline_at):%d %B %Y %H:%M} passed"
        if job.held_at is None:
            Job.objects.filter(pk=job.pk).update(
                held_at=clock.now(), held_by=WORKER.name, hold_reason=told, deadline_at=None
            )
            items.set_held(job=job, held=True)
        else:
            Job.objects.filter(pk=job.pk).update(deadline_at=None)
        evidence = {"why": told, "deadline": job.deadline_at.isoformat()}
        journal.record(job=job, event="deadline.passed", actor=WORKER, evidence=evidence)
        return Done()
