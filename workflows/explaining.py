"""Why a job waits, as far as its steps tell: a limit, the next try, what they wait for, or that nobody works."""

from __future__ import annotations

from datetime import datetime

from django.db import connection
from django.db.models.functions import Now
from django.utils import timezone

from workflows import waiting
from workflows.kinds import NOT_STEPS
from workflows.models import Job, StageKind, Worker, WorkItem
from workflows.states import ENDED, ItemState, JobState

RANK = 60
RANK_OF_LIMITS = 35


def limit_that_is_closed(job: Job) -> str | None:
    """One sentence where steps or sends of the job stand under a limit that lets nothing through now."""
    return None if job.state in ENDED or job.held_at is not None else _limit(job)


def why_it_waits(job: Job) -> str | None:
    """One sentence where the job's open steps explain it. At most seven indexed queries."""
    if job.state not in (JobState.RECEIVED, JobState.VALIDATED) or job.held_at is not None:
        return None
    return _worker(job) or _backing_off(job) or waiting.why_it_waits(job)


def _limit(job: Job) -> str | None:
    with connection.cursor() as cursor:
        cursor.execute(
            _CLOSED, {"job": job.pk, "ready": ItemState.READY.number, "running": ItemState.RUNNING.number}
        )
        row = cursor.fetchone()
    if row is None:
        return None
    name, until, why, concurrency, running = row
    if until is not None:
        return f"waiting for limit {name} until {clock(until)}: {why}"
    return f"waiting for limit {name}: {running} of {concurrency} are running"


def _worker(job: Job) -> str | None:
    ready = WorkItem.objects.filter(job=job, state=ItemState.READY.number)
    if not ready.exists() or Worker.objects.filter(ended_at__isnull=True, lease_until__gt=Now()).exists():
        return None
    return "no worker is running"


def _backing_off(job: Job) -> str | None:
    item = (
        WorkItem.objects.filter(job=job, state=ItemState.BACKING_OFF.number)
        .exclude(stage__kind__in=NOT_STEPS)
        .select_related("stage")
        .order_by("next_attempt_at")
        .first()
    )
    if item is None or item.next_attempt_at is None:
        return None
    which = f" {item.key} of {item.stage.total}" if item.stage.kind == StageKind.EACH else ""
    return (
        f"{item.stage.name}{which} tries again at {clock(item.next_attempt_at)}"
        f" ({item.attempts} of {item.attempts_limit} attempts used)"
    )


def clock(at: datetime) -> str:
    """A time as people here read it, with its day where that is not today."""
    local = timezone.localtime(at)
    if local.date() == timezone.localdate():
        return f"{local:%H:%M}"
    return f"{local:%H:%M} on {local.day} {local:%B}"


_CLOSED = """
WITH lanes AS (
  SELECT l.tenant_id, l.name, count(*) FROM workflows_workitem w JOIN workflows_lane l ON l.id = abs(w.lane_id)
  WHERE w.job_id = %(job)s AND w.state = %(ready)s AND w.limited GROUP BY l.tenant_id, l.name),
limits AS (
  SELECT m.name, m.closed_until, m.closed_why, m.concurrency FROM workflows_limit m
  JOIN lanes ON lanes.name = m.name AND lanes.tenant_id = m.tenant_id
  UNION ALL
  SELECT m.name, m.closed_until, m.closed_why, m.concurrency FROM workflows_sharedlimit m JOIN lanes USING (name)),
told AS (
  SELECT limits.*, (SELECT count(*) FROM workflows_workitem w JOIN workflows_lane l ON l.id = abs(w.lane_id)
    WHERE w.state = %(running)s AND w.limited AND l.name = limits.name) AS running FROM limits)
SELECT name, CASE WHEN closed_until > clock_timestamp() THEN closed_until END, closed_why, concurrency, running
FROM told WHERE closed_until > clock_timestamp() OR running >= concurrency
ORDER BY closed_until DESC NULLS LAST LIMIT 1
"""
