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
