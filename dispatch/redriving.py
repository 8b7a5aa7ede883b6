"""Whether a failed job left an effect behind, so that doing it again could do it twice."""

from __future__ import annotations

from dispatch.models import Operation
from dispatch.states import WITHOUT_EFFECT
from workflows.models import Job


def why_not(job: Job) -> str:
    """The first operation of the job, whichever its proposal, that was not left without effect; or nothing."""
    operation = Operation.objects.filter(job=job).exclude(state__in=WITHOUT_EFFECT).order_by("pk").first()
    if operation is None:
        return ""
    return f"{operation.label} is {operation.state.lower()}: doing it again could do it twice."


def why_not_migrate(job: Job) -> str:
    """The first operation of the job that may have been sent, or is waited for; or nothing."""
    operations = Operation.objects.filter(job=job).order_by("pk")
    sent = operations.exclude(first_may_have_been_sent_at=None).first()
    if sent is not None:
        return f"{sent.label} may have been sent: a job is migrated before anything is."
    left = operations.exclude(state__in=WITHOUT_EFFECT).first()
    return f"{left.label} is {left.state.lower()}: a job is migrated before anything is sent." if left else ""
