"""Opening stages from a person's or the machine's action (the engine's own fast path is in engine/sql.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db import connection

from access.statements import Values, execute, insert
from workflows.authoring.steps import VALIDATE_STAGE, Step
from workflows.models import Job, Lane, Stage, StageKind
from workflows.states import ItemState


def open_validation(*, job: Job, now: datetime) -> None:
    """The first stage of every job: one item that validates its input."""
    _single(job=job, name=VALIDATE_STAGE, ordinal=0, kind=StageKind.VALIDATE, attempts=5, limit="", now=now)


def open_step(*, job: Job, step: Step, now: datetime) -> Stage:
    """Open a step's stage and all of its items, once. Runs in the caller's transaction, which holds the job's lock.

    A fan-out's elements are taken apart in the database: they may be many.
    """
    if step.each is None:
        return _single(
            job=job,
            name=step.name,
            ordinal=step.ordinal,
            kind=step.kind,
            attempts=step.retry.attempts,
            limit=step.limit,
            now=now,
        )
    stage = _stage(job=job, name=step.name, ordinal=step.ordinal, kind=step.kind, now=now)
    values = {"source": step.each.step, "field": step.each.field, "key": step.key}
    elements = _ELEMENTS if step.each.field else _RESULTS
    total = _insert(job=job, stage=stage, elements=elements, values=values, step=step)
    Stage.objects.filter(pk=stage.pk).update(
        total=total, need=step.needs.of(total), patience=step.needs.patience
    )
    stage.refresh_from_db(fields=["total", "need", "patience"])
    return stage


def add_items(*, job: Job, stage: Stage, step: Step, elements: Sequence[tuple[str, int, str]]) -> int:
    """More items of a fan-out's open stage: (key, place, element) each. Runs in the caller's transaction, as above."""
    keys, places, values = zip(*elements, strict=True)
    return _insert_items(
        job=job,
        stage=stage,
        elements=_GIVEN,
        values={"keys": list(keys), "places": list(places), "values": list(values)},
        attempts=step.retry.attempts,
        limit=step.limit,
    )


def lane_of(tenant_id: int, limit: str = "") -> int:
    """A tenant's lane for what stands under a named limit (or none), made with its first work."""
    found = _LANE.first(tenant_id, limit)
    if found is None:
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO workflows_lane (tenant_id, name) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                [tenant_id, limit],
            )
        (found,) = _LANE.all(tenant_id, limit)
    return int(found[0])


def _single(
    *, job: Job, name: str, ordinal: int, kind: StageKind, attempts: int, limit: str, now: datetime
) -> Stage:
    stage = _stage(job=job, name=name, ordinal=ordinal, kind=kind, now=now)
    _insert_items(job=job, stage=stage, elements=_ONE, values={}, attempts=attempts, limit=limit)
    return stage


def _stage(*, job: Job, name: str, ordinal: int, kind: StageKind, now: datetime) -> Stage:
    return insert(
        Stage(tenant_id=job.tenant_id, job=job, name=name, ordinal=ordinal, kind=kind, total=1, opened_at=now)
    )


def _insert(*, job: Job, stage: Stage, elements: str, values: dict[str, str], step: Step) -> int:
    return _insert_items(
        job=job, stage=stage, elements=elements, values=values, attempts=step.retry.attempts, limit=step.limit
    )


def _insert_items(
    *, job: Job, stage: Stage, elements: str, values: Mapping[str, Any], attempts: int, limit: str
) -> int:
    lane = lane_of(job.tenant_id, limit)
    inserted = execute(
        _INSERT.format(elements=elements, waiting=_RANKED_LIMITED if limit else _RANKED),
        {
            **values,
            "tenant": job.tenant_id,
            "job": job.pk,
            "stage": stage.pk,
            "lane": lane if job.held_at is None else -lane,
            "real_lane": lane,
            "limited": bool(limit),
            "attempts": attempts,
            "ready": ItemState.READY.number,
            "succeeded": ItemState.SUCCEEDED.number,
        },
    )
    return int(inserted.fetchone()[0])


_LANE = Values(
    lambda tenant, limit: Lane.objects.filter(
        tenant_id=tenant, name=limit, revision__isnull=True
    ).values_list("pk")
)


_RANKED = "state = %(ready)s AND NOT limited AND deaths = 0"
_RANKED_LIMITED = "state = %(ready)s AND limited AND deaths = 0"

_ONE = "SELECT 1::bigint AS ordinal, NULL::text AS value, '1'::text AS key"

_ELEMENTS = """
  SELECT x.ordinal, x.value::text AS value,
    CASE WHEN %(key)s = '' THEN x.ordinal::text ELSE x.value ->> %(key)s END AS key
  FROM workflows_stage s
  JOIN workflows_workitem w ON w.job_id = s.job_id AND w.stage_id = s.id AND w.state = %(succeeded)s
  JOIN LATERAL (SELECT output FROM workflows_checkpoint WHERE item_id = w.id ORDER BY version DESC LIMIT 1) c ON true
  CROSS JOIN LATERAL json_array_elements(c.output::json -> %(field)s) WITH ORDINALITY AS x(value, ordinal)
  WHERE s.job_id = %(job)s AND s.name = %(source)s"""
"""The type json, not jsonb: an element's text stays what it is."""

_RESULTS = """
  SELECT w.ordinal::bigint, c.output AS value, w.key
  FROM workflows_stage s
  JOIN workflows_workitem w ON w.job_id = s.job_id AND w.stage_id = s.id AND w.state = %(succeeded)s
  JOIN LATERAL (SELECT output FROM workflows_checkpoint WHERE item_id = w.id ORDER BY version DESC LIMIT 1) c ON true
  WHERE s.job_id = %(job)s AND s.name = %(source)s"""

_GIVEN = """
  SELECT e.place::bigint AS ordinal, e.value, e.key
  FROM unnest(%(keys)s::text[], %(places)s::int[], %(values)s::text[]) AS e(key, place, value)"""

_INSERT = """
WITH e AS MATERIALIZED ({elements}),
lowest AS (SELECT coalesce((SELECT min(rank) FROM workflows_workitem WHERE lane_id = %(real_lane)s AND {waiting}), 0)
  AS rank),
made AS (
  INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, limited, rank, state, attempts,
    attempts_limit, claim_no)
  SELECT %(tenant)s, %(job)s, %(stage)s, e.key, e.ordinal, %(lane)s, %(limited)s, lowest.rank + e.ordinal - 1,
    %(ready)s, 0, %(attempts)s, 0
  FROM e, lowest ORDER BY e.ordinal
  RETURNING id, key),
inputs AS (
  INSERT INTO workflows_iteminput (tenant_id, item_id, version, value)
  SELECT %(tenant)s, made.id, 1, e.value FROM made JOIN e USING (key) WHERE e.value IS NOT NULL)
SELECT count(*), pg_notify('counterfoil_work', '') FROM made
"""
