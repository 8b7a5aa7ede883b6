"""When a stage is done: all of its items, or as many as its need says; and closing it. The caller holds the job's lock."""

# ruff: noqa: S608 - the statements are made of this file's own constants
from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import QuerySet

from access.roles import WORKER
from access.statements import Values, execute
from workflows import items, journal
from workflows.models import Job, Stage, StageKind, WorkItem
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState

_OPEN = [s.number for s in OPEN_ITEM_STATES]
_STUCK = [s.number for s in STUCK_ITEM_STATES]
KEYS_NAMED = 50
"""So many of a stage's items without a result are named in the journal; the rest is counted."""


def is_met(*, job: Job, stage: Stage, now: datetime) -> bool:
    """Whether an open stage may close. Notes when a need for some of its items was first met."""
    if stage.need is None:
        return not _UNFINISHED.exist(job.pk, stage.pk)
    mine = WorkItem.objects.filter(job=job, stage=stage)
    if mine.filter(state=ItemState.SUCCEEDED.number).count() < stage.need:
        return False
    if stage.met_at is None:
        Stage.objects.filter(pk=stage.pk).update(met_at=now)
        stage.met_at = now
    if not mine.filter(state__in=_OPEN).exists():
        return True
    return stage.patience is not None and now >= stage.met_at + timedelta(seconds=stage.patience)


def needs_a_person(*, stage: Stage) -> bool:
    """Whether an item of the stage that stopped is in the way: not while others can still be enough."""
    if stage.need is None:
        return True
    stuck = WorkItem.objects.filter(job_id=stage.job_id, stage=stage, state__in=_STUCK).count()
    return stage.closed_at is None and stage.total - stuck < stage.need


def close(*, job: Job, stage: Stage, now: datetime) -> None:
    """Close a stage whose need is met. What is still open is skipped: if its result comes, it comes too late."""
    if stage.kind != StageKind.EACH:
        _write_closed(stage, now)
        return
    mine = WorkItem.objects.filter(job=job, stage=stage)
    without = {"skipped": _told(mine.filter(state=ItemState.SKIPPED.number))}
    if stage.need is not None:
        without |= _leave_behind(job=job, stage=stage, now=now)
    _write_closed(stage, now)
    evidence: dict[str, Any] = {"stage": stage.name, "items": stage.total, "checkpoints": stage.digest}
    evidence |= {name: told for name, told in without.items() if told["count"]}
    journal.record(job=job, event="stage.closed", actor=WORKER, evidence=evidence)


def checkpoints_digest(stage: Stage) -> str:
    """SHA-256 over the digests of a stage's checkpoints, in input order."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, {"job": stage.job_id, "stage": stage.pk})
        return str(cursor.fetchone()[0])


def _write_closed(stage: Stage, now: datetime) -> None:
    closed = execute(_CLOSE, {"now": now, "stage": stage.pk, "job": stage.job_id})
    stage.closed_at, stage.digest = now, closed.fetchone()[0]


def _leave_behind(*, job: Job, stage: Stage, now: datetime) -> dict[str, dict[str, Any]]:
    """What a stage that some are enough for goes on without: what is open is skipped, what stopped asks nobody."""
    late = _skip_open(job=job, stage=stage)
    if late["count"]:
        items.drop_waits(job=job)
    stuck = WorkItem.objects.filter(job=job, stage=stage, state__in=_STUCK)
    stuck.filter(reported_at__isnull=True).update(reported_at=now)
    return {"late": late, "failed": _told(stuck)}


def _skip_open(*, job: Job, stage: Stage) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute(
            _SKIP, {"job": job.pk, "stage": stage.pk, "open": _OPEN, "skipped": ItemState.SKIPPED.number}
        )
        keys = [key for (key,) in cursor.fetchall()]
    return {"count": len(keys), "keys": keys[:KEYS_NAMED]}


def _told(items: QuerySet[WorkItem]) -> dict[str, Any]:
    keys = items.order_by("ordinal").values_list("key", flat=True)[:KEYS_NAMED]
    return {"count": len(keys) if len(keys) < KEYS_NAMED else items.count(), "keys": list(keys)}


_SKIP = """
WITH mine AS (
  SELECT id FROM workflows_workitem WHERE job_id = %(job)s AND stage_id = %(stage)s AND state = ANY(%(open)s)
  ORDER BY id FOR NO KEY UPDATE)
UPDATE workflows_workitem w SET state = %(skipped)s, finished_at = clock_timestamp() FROM mine WHERE w.id = mine.id
RETURNING w.key
"""

_DIGEST = """
SELECT encode(sha256(convert_to(coalesce(string_agg(
  w.key || ' ' || c.version || ' ' || c.digest, E'\\n' ORDER BY w.ordinal, c.version), ''), 'UTF8')), 'hex')
FROM workflows_workitem w JOIN workflows_checkpoint c ON c.item_id = w.id
WHERE w.job_id = %(job)s AND w.stage_id = %(stage)s
"""

_CLOSE = f"""
UPDATE workflows_stage SET closed_at = %(now)s, digest = ({_DIGEST}) WHERE id = %(stage)s RETURNING digest
"""

_UNFINISHED = Values(
    lambda job, stage: WorkItem.objects.filter(job=job, stage=stage, state__in=_OPEN + _STUCK).values_list(
        "pk"
    )[:1]
)
