"""Machine items: work that rooms above give the engine beside workflows' steps (send this operation, expire that).

A handler runs outside any transaction, opens its own, and must find out by itself what is left to do: it may be
called again after a crash at any line, and by several calls for nothing. It returns when it wants to be called again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from django.db import connection

from access.statements import execute
from workflows.claims import MACHINE_ATTEMPTS, Claim, Done, Wait
from workflows.items import timekeepers
from workflows.kinds import StageKind
from workflows.models import Job
from workflows.stages import lane_of
from workflows.states import ItemState

__all__ = ["Claim", "Done", "MachineHandler", "Wait", "handler", "register", "ring"]

MACHINE_ORDINAL = 1000

MachineHandler = Callable[[Claim], Done | Wait]
_handlers: dict[str, MachineHandler] = {}


def register(name: str, handler: MachineHandler, *, keeps_time: bool = False) -> None:
    """Add a machine. `name` is stored in rows, so it must stay what it is.

    `keeps_time`: its items are called while their job is held, too, since a hold stops no clock.
    """
    _handlers[name] = handler
    if keeps_time:
        timekeepers.add(name)


def handler(name: str) -> MachineHandler:
    """The machine's handler. Raises KeyError for a name that nobody has registered."""
    return _handlers[name]


def ring(*, job: Job, machine: str, key: str, at: datetime | None = None) -> None:
    """Have the machine's handler called for `key`, now or at a time; in the caller's transaction.

    The caller holds the job's lock. Repeating it moves the time. An item that is running is called once more after.
    """
    ring_all(job=job, machine=machine, keys=[key], at=at)


def ring_all(
    *, job: Job, machine: str, keys: Sequence[str], at: datetime | None = None, limit: str = ""
) -> None:
    """`ring` for many keys, each given once, in one statement. They take turns with other work, as a fan-out's items do.

    `limit`: they are claimed under the limit of this name, if there is one now; an item stays in the lane it has.
    """
    assert connection.in_atomic_block
    if not keys:
        return
    lane = lane_of(job.tenant_id, limit) if limit and _is_set(limit) else None
    execute(_RING, {**_NUMBERS, "job": job.pk, "machine": machine, "keys": list(keys), "at": at,
                    "lane": lane, "limit": MACHINE_ATTEMPTS, "timed": machine in timekeepers,
                    "ordinal": MACHINE_ORDINAL, "kind": StageKind.MACHINE.value})  # fmt: skip


def hasten(*, machine: str, operations: Mapping[int, int]) -> set[int]:
    """Have items that wait for their time called now, many at once and without their jobs' locks: `operations` are keys
    with their jobs. Returns those that were; an item that is running, or that somebody holds, wants a `ring` of its own.
    """
    found = execute(
        _HASTEN,
        {
            **_NUMBERS,
            "machine": machine,
            "jobs": list(operations.values()),
            "keys": [str(k) for k in operations],
        },
    )
    return {int(key) for key, _ in found.fetchall()}


def _is_set(limit: str) -> bool:
    found = execute(
        "SELECT EXISTS (SELECT FROM workflows_limit WHERE name = %s)"
        " OR EXISTS (SELECT FROM workflows_sharedlimit WHERE name = %s)",
        [limit, limit],
    )
    return bool(found.fetchone()[0])


_NUMBERS = {s.value.lower(): s.number for s in ItemState}
_HASTEN = """
WITH waiting AS (
  SELECT w.id FROM unnest(%(jobs)s::bigint[], %(keys)s::text[]) AS k(job_id, key)
  JOIN workflows_stage s ON s.job_id = k.job_id AND s.name = %(machine)s::text
  JOIN workflows_workitem w ON w.job_id = k.job_id AND w.stage_id = s.id AND w.key = k.key
  WHERE w.state = %(backing_off)s FOR UPDATE OF w SKIP LOCKED)
UPDATE workflows_workitem w SET state = %(ready)s, next_attempt_at = NULL FROM waiting WHERE w.id = waiting.id
RETURNING w.key, pg_notify('counterfoil_work', '')::text
"""
_RING = """
WITH made AS (
  INSERT INTO workflows_stage (tenant_id, job_id, name, ordinal, kind, total, opened_at, digest)
  SELECT tenant_id, id, %(machine)s::text, %(ordinal)s::int, %(kind)s::text, 0, now(), '' FROM workflows_job
  WHERE id = %(job)s ON CONFLICT (job_id, name) DO NOTHING RETURNING id),
s AS (
  SELECT id FROM made
  UNION ALL SELECT id FROM workflows_stage WHERE job_id = %(job)s AND name = %(machine)s::text)
INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, limited, rank, state, attempts,
  attempts_limit, claim_no, next_attempt_at)
SELECT j.tenant_id, j.id, s.id, k.key, 0, CASE WHEN j.held_at IS NULL OR %(timed)s THEN l.id ELSE -l.id END, l.name <> '',
  coalesce(CASE WHEN l.name = '' THEN
    (SELECT min(rank) FROM workflows_workitem WHERE lane_id = l.id AND state = %(ready)s AND NOT limited AND deaths = 0)
  ELSE
    (SELECT min(rank) FROM workflows_workitem WHERE lane_id = l.id AND state = %(ready)s AND limited AND deaths = 0)
  END, 0) + k.place - 1,
  CASE WHEN %(at)s::timestamptz IS NULL THEN %(ready)s ELSE %(backing_off)s END, 0, %(limit)s, 0, %(at)s
FROM workflows_job j
CROSS JOIN s
JOIN workflows_lane l ON l.tenant_id = j.tenant_id
  AND CASE WHEN %(lane)s::bigint IS NULL THEN l.name = '' AND l.revision_id IS NULL ELSE l.id = %(lane)s::bigint END
CROSS JOIN unnest(%(keys)s::text[]) WITH ORDINALITY AS k(key, place)
WHERE j.id = %(job)s
ORDER BY k.place
ON CONFLICT (job_id, stage_id, key) DO UPDATE SET
  state = CASE WHEN workflows_workitem.state = %(running)s THEN %(running)s ELSE excluded.state END,
  next_attempt_at = CASE WHEN workflows_workitem.state = %(running)s THEN coalesce(excluded.next_attempt_at, now())
    ELSE excluded.next_attempt_at END,
  attempts = CASE WHEN workflows_workitem.state = %(running)s THEN workflows_workitem.attempts ELSE 0 END,
  deaths = least(workflows_workitem.deaths, 1),
  reported_at = NULL
RETURNING CASE WHEN %(at)s::timestamptz IS NULL THEN pg_notify('counterfoil_work', '')::text END
"""
"""The stage is made with its first item. The server tells a transaction's equal notices once."""
