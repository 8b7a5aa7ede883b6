"""A job's input as it is now: what was submitted, or what a migration converted it to."""

from __future__ import annotations

from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from access.statements import Values
from workflows.models import Job, JobInput


def text_of(job_id: int) -> str:
    """The newest version, as JSON text. Needs the tenant's scope."""
    ((text,),) = _NEWEST.all(job_id)
    return str(text)


def _newest(job: int) -> QuerySet[Job, tuple[Any, ...]]:
    later = JobInput.objects.filter(job=OuterRef("pk")).order_by("-version").values("value")[:1]
    jobs = Job.objects.filter(pk=job).annotate(newest=Coalesce(Subquery(later), "input"))
    return jobs.values_list("newest")


_NEWEST = Values(_newest)


def versions_of(job_id: int) -> list[JobInput]:
    """The later versions, oldest first."""
    return list(JobInput.objects.filter(job_id=job_id).order_by("version"))
