"""One job a business reference, unless the one that had it ended without any effect: then the reference is free again."""

from __future__ import annotations

from django.db import connection

from workflows import hooks
from workflows.compensation.plan import StillUndoing, refuse_redrive
from workflows.hooks import Happened
from workflows.models import Job


def lock_reference(tenant_id: int, workflow: str, reference: str) -> None:
    """Until the transaction ends nobody else decides whose this reference is."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"{tenant_id}:{workflow}:reference {reference}"],
        )


def holder(workflow: str, reference: str) -> Job | None:
    """The job that has the reference now, or None."""
    return Job.objects.filter(workflow=workflow, reference=reference, reference_free=False).first()


def ended(happened: Happened) -> None:
    """FAILED, CANCELLED: if nothing was applied and nothing is to be undone, the same intent may come again."""
    try:
        refuse_redrive(happened.job)
    except StillUndoing:
        return
    undone(happened)


def undone(happened: Happened) -> None:
    """compensation.finished: now nothing is left."""
    job = happened.job
    if job.reference and not hooks.effect_stands(job):
        Job.objects.filter(pk=job.pk).update(reference_free=True)


def take_back(job: Job) -> str:
    """For a job that is to go on: its reference again, or in a sentence who has it now. The job is locked."""
    if not job.reference:
        return ""
    lock_reference(job.tenant_id, job.workflow, job.reference)
    other = holder(job.workflow, job.reference)
    if other is not None and other.pk != job.pk:
        return f"{other.label} has its reference, {job.reference}, by now."
    Job.objects.filter(pk=job.pk).update(reference_free=False)
    return ""
