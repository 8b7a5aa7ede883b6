"""What still runs of a job that has ended: a handler that had begun goes on in vain, and until then the job is stopping."""

from __future__ import annotations

from django.db.models import Exists, OuterRef

from workflows.models import Attempt, Job, Worker, WorkItem
from workflows.states import ENDED, ItemState


def still_running(job: Job) -> int:
    """How many items that were cancelled while a living worker ran them have not come back. One query, of an ended job.

    Whatever ends a claim writes an attempt: a claim of a living worker without one is inside its handler.
    """
    if job.state not in ENDED:
        return 0
    living = Worker.objects.filter(ended_at__isnull=True).values("pk")
    came_back = Attempt.objects.filter(item=OuterRef("pk"), claim_no=OuterRef("claim_no"))
    cancelled = WorkItem.objects.filter(
        job=job, state=ItemState.CANCELLED.number, claim_no__gt=0, worker_id__in=living
    )
    return cancelled.exclude(stage__kind="machine").exclude(Exists(came_back)).count()
