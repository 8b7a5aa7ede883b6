"""A job whose revision the worker that met it lacks: left to those that have it, or held until somebody has."""

from __future__ import annotations

from datetime import datetime

from django.conf import settings

from access.roles import WORKER
from access.tenancy import acting
from workflows import apart, items, journal, known
from workflows.locks import lock_job
from workflows.models import HeldFor, Job
from workflows.states import ENDED


def revision_missing(*, tenant_id: int, job_id: int, why: str, now: datetime) -> bool:
    """Set a job apart for the workers that have its revision; hold it where none has had it for a while.

    The hook on `revision.missing` opens the case. Locks job → items. True when it is held now; a repeat changes nothing.
    """
    with acting(tenant_id):
        job = lock_job(job_id)
        if job.held_at is not None and job.state not in ENDED:
            return False
        pinned = known.known_for(job)
        alone = known.without_a_worker(pinned)
        if job.state in ENDED:
            # Nothing holds it any more; what is left to be undone asks for a person by itself, where anybody meets it.
            apart.set_apart(job=job, known=pinned) if alone is None else apart.put_together(job=job)
            return False
        apart.set_apart(job=job, known=pinned)
        if alone is None or alone < settings.COUNTERFOIL_REVISION_GRACE_SECONDS:
            return False
        Job.objects.filter(pk=job.pk).update(
            held_at=now, held_by=WORKER.name, hold_reason=why[:1000], held_for=HeldFor.REVISION
        )
        items.set_held(job=job, held=True)
        job.held_at, job.held_by, job.hold_reason, job.held_for = now, WORKER.name, why, HeldFor.REVISION
        journal.record(
            job=job,
            event="revision.missing",
            actor=WORKER,
            evidence={"why": why, "revision": job.revision, "configuration": job.configuration_digest},
        )
        return True


def revision_returned(*, tenant_id: int, job_id: int) -> bool:
    """Let a job go on that was held for its revision, once a worker has that (again). Locks job → items → (hooks) case.

    A hold of a person's stays. True when the job goes on.
    """
    with acting(tenant_id):
        job = lock_job(job_id)
        if job.held_for != HeldFor.REVISION or known.without_a_worker(known.known_for(job)) is not None:
            return False
        lift(job)
        journal.record(
            job=job,
            event="revision.returned",
            actor=WORKER,
            evidence={"revision": job.revision, "configuration": job.configuration_digest},
        )
        return True


def lift(job: Job) -> None:
    """Take the hold off a locked job and put its items back before the claims."""
    Job.objects.filter(pk=job.pk).update(held_at=None, held_by="", hold_reason="", held_for="")
    items.set_held(job=job, held=False)
    job.held_at, job.held_by, job.hold_reason, job.held_for = None, "", "", ""
