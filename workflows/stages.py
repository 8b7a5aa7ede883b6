"""Opening stages from a person's or the machine's action (the engine's own fast path is in engine/sql.py)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import islice

from django.db import connection

from workflows.authoring.steps import VALIDATE_STAGE, EachSource, Step
from workflows.models import Job, Lane, Stage, StageKind
from workflows.states import ItemState

CHUNK = 1000


def open_validation(*, job: Job, now: datetime) -> None:
    """The first stage of every job: one item that validates its input."""
    stage = _stage(job=job, name=VALIDATE_STAGE, ordinal=0, kind=StageKind.VALIDATE, now=now)
    _items(job=job, stage=stage, attempts_limit=5, elements=[None])


def open_step(*, job: Job, step: Step, elements: Iterable[str] | None, now: datetime) -> Stage:
    """Open a step's stage: one item, or one an element (JSON texts, in input order). Runs in the caller's transaction.

    The caller holds the job's lock. Items are created here, once.
    """
    stage = _stage(job=job, name=step.name, ordinal=step.ordinal, kind=step.kind, now=now)
    total = _items(
        job=job,
        stage=stage,
        attempts_limit=step.retry.attempts,
        elements=[None] if elements is None else elements,
    )
    Stage.objects.filter(pk=stage.pk).update(total=total)
    return stage


def open_each_result(*, job: Job, step: Step, source: EachSource, now: datetime) -> Stage:
    """Open a fan-out over an earlier fan-out's results, copied inside the database."""
    stage = _stage(job=job, name=step.name, ordinal=step.ordinal, kind=step.kind, now=now)
    with connection.cursor() as cursor:
        cursor.execute(
            _COPY_ITEMS,
            {
                "job": job.pk,
                "stage": stage.pk,
                "source": source.step,
                "limit": step.retry.attempts,
                "ready": ItemState.READY.number,
                "succeeded": ItemState.SUCCEEDED.number,
            },
        )
        total = cursor.rowcount
        cursor.execute("NOTIFY counterfoil_work")
    Stage.objects.filter(pk=stage.pk).update(total=total)
    return stage


def lane_of(tenant_id: int) -> int:
    """The tenant's own lane, made with its first job."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO workflows_lane (tenant_id, name) VALUES (%s, '') ON CONFLICT (tenant_id, name) DO NOTHING",
            [tenant_id],
        )
    return Lane.objects.values_list("pk", flat=True).get(tenant_id=tenant_id, name="")


def _stage(*, job: Job, name: str, ordinal: int, kind: StageKind, now: datetime) -> Stage:
    return Stage.objects.create(
        tenant_id=job.tenant_id, job=job, name=name, ordinal=ordinal, kind=kind, total=1, opened_at=now
    )


def _items(*, job: Job, stage: Stage, attempts_limit: int, elements: Iterable[str | None]) -> int:
    lane = lane_of(job.tenant_id)
    total = 0
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT coalesce(min(rank), 0) FROM workflows_workitem WHERE lane_id = %s AND state = %s",
            [lane, ItemState.READY.number],
        )
        rank = cursor.fetchone()[0]
        for chunk in _chunks(elements):
            numbers = list(range(total + 1, total + len(chunk) + 1))
            cursor.execute(
                _INSERT_ITEMS,
                {
                    "tenant": job.tenant_id,
                    "job": job.pk,
                    "stage": stage.pk,
                    "lane": lane if job.held_at is None else -lane,
                    "rank": rank,
                    "ready": ItemState.READY.number,
                    "limit": attempts_limit,
                    "ordinals": numbers,
                    "values": chunk,
                },
            )
            total += len(chunk)
        cursor.execute("NOTIFY counterfoil_work")
    return total


def _chunks(elements: Iterable[str | None]) -> Iterator[list[str | None]]:
    iterator = iter(elements)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk


_INSERT_ITEMS = """
WITH e AS (SELECT * FROM unnest(%(ordinals)s::int[], %(values)s::text[]) AS e(ordinal, value)),
made AS (
  INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, rank, state, attempts,
    attempts_limit, claim_no)
  SELECT %(tenant)s, %(job)s, %(stage)s, e.ordinal::text, e.ordinal, %(lane)s, %(rank)s + e.ordinal - 1, %(ready)s, 0,
    %(limit)s, 0 FROM e ORDER BY e.ordinal
  RETURNING id, ordinal)
INSERT INTO workflows_iteminput (tenant_id, item_id, version, value)
SELECT %(tenant)s, made.id, 1, e.value FROM made JOIN e USING (ordinal) WHERE e.value IS NOT NULL
"""

_COPY_ITEMS = """
WITH e AS (
  SELECT w.ordinal, c.output, w.tenant_id, w.lane_id FROM workflows_stage s
  JOIN workflows_workitem w ON w.stage_id = s.id AND w.state = %(succeeded)s
  JOIN LATERAL (SELECT output FROM workflows_checkpoint WHERE item_id = w.id ORDER BY version DESC LIMIT 1) c ON true
  WHERE s.job_id = %(job)s AND s.name = %(source)s),
made AS (
  INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, rank, state, attempts,
    attempts_limit, claim_no)
  SELECT tenant_id, %(job)s, %(stage)s, e.ordinal::text, e.ordinal, lane_id,
    coalesce((SELECT min(rank) FROM workflows_workitem x WHERE x.lane_id = e.lane_id AND x.state = %(ready)s), 0)
      + e.ordinal - 1,
    %(ready)s, 0, %(limit)s, 0 FROM e ORDER BY e.ordinal
  RETURNING id, ordinal, tenant_id)
INSERT INTO workflows_iteminput (tenant_id, item_id, version, value)
SELECT made.tenant_id, made.id, 1, e.output FROM made JOIN e USING (ordinal)
"""
