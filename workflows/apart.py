"""Work that some workers lack the revision for, moved to lanes where only those look that have it.

A worker that meets such work gives it back and has its job set apart, once: no other claim of it finds the job, and
those that have the revision find it as before. The caller holds the job's lock (order: job → items).
"""

from __future__ import annotations

from django.db import connection

from workflows.models import Job, KnownRevision
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES

_NOT_DONE = [s.number for s in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)]


def set_apart(*, job: Job, known: KnownRevision) -> int:
    """Move what is left of a job to its revision's lanes; how many items were moved. A repeat moves none."""
    return _move(job=job, revision=known.pk)


def put_together(*, job: Job) -> int:
    """Move what is left of a job back to the lanes that everybody looks at."""
    return _move(job=job, revision=None)


def _move(*, job: Job, revision: int | None) -> int:
    values = {"job": job.pk, "revision": revision, "states": _NOT_DONE}
    with connection.cursor() as cursor:
        cursor.execute(_LANES, values)
        cursor.execute(_MOVE, values)
        moved = int(cursor.rowcount)
        if moved:
            cursor.execute("NOTIFY counterfoil_work")
    return moved


_LANES = """
INSERT INTO workflows_lane (tenant_id, name, revision_id)
SELECT DISTINCT l.tenant_id, l.name, %(revision)s::bigint FROM workflows_workitem w
JOIN workflows_lane l ON l.id = abs(w.lane_id)
WHERE w.job_id = %(job)s AND w.state = ANY(%(states)s) AND l.revision_id IS DISTINCT FROM %(revision)s::bigint
ON CONFLICT DO NOTHING
"""

_MOVE = """
WITH mine AS (
  SELECT w.id, CASE WHEN w.lane_id < 0 THEN -n.id ELSE n.id END AS lane
  FROM workflows_workitem w JOIN workflows_lane l ON l.id = abs(w.lane_id)
  JOIN workflows_lane n ON n.tenant_id = l.tenant_id AND n.name = l.name
    AND n.revision_id IS NOT DISTINCT FROM %(revision)s::bigint
  WHERE w.job_id = %(job)s AND w.state = ANY(%(states)s) AND n.id <> l.id
  ORDER BY w.id FOR NO KEY UPDATE OF w)
UPDATE workflows_workitem w SET lane_id = mine.lane FROM mine WHERE w.id = mine.id
"""
