"""What this process can run: said in its worker's row, and the lanes of work that it leaves to others.

Work of a revision that some workers lack stands in lanes of its own (`workflows/apart.py`). A process that lacks the
revision does not look there. Where nobody has had it for a while, its jobs are held, with a case; where this process
has it (again), they go on.
"""

# ruff: noqa: S608 - the statements are made of our own constants
from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.conf import settings

from workflows import known, registry
from workflows.engine.connections import Connection
from workflows.states import OPEN_ITEM_STATES, ItemState

if TYPE_CHECKING:
    from workflows.engine.engine import Engine

log = logging.getLogger(__name__)
_READY = ItemState.READY.number
_OPEN = ", ".join(str(s.number) for s in OPEN_ITEM_STATES)


class Serving:
    """Used by the liveness thread, but for `apart`, which the committer reads, and `look_soon`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._look_soon = False
        self._revisions: list[int] = []
        self.apart: list[int] = []
        """Lanes of revisions that this process lacks."""

    def look_soon(self) -> None:
        """Something was set apart: read the lanes again at the next tick. From any thread."""
        self._look_soon = True

    def register(self, connection: Connection, worker_id: int) -> None:
        """Write down what is loaded here, and that this worker can run it."""
        self._write_down(connection)
        self._publish(connection, worker_id)
        self._read_lanes(connection)

    def tick(self, connection: Connection) -> None:
        """What cannot wait for the sweep."""
        if self._look_soon:
            self._look_soon = False
            self._read_lanes(connection)

    def sweep(self, connection: Connection, worker_id: int) -> None:
        """Say again what this worker can run, and see which jobs that are held for a revision it can free."""
        self._write_down(connection)
        self._publish(connection, worker_id)
        self._read_lanes(connection)
        for tenant_id, job_id in connection.execute(_RETURNED, [self._revisions]).fetchall():
            self._engine.advancer.revision_returned(tenant_id, job_id)
        left = connection.execute(_LEFT, [settings.COUNTERFOIL_REVISION_GRACE_SECONDS]).fetchall()
        for tenant_id, job_id, workflow, revision in left:
            why = f"{workflow} revision {revision} is deployed on no worker."
            self._engine.advancer.missing_revision(tenant_id, job_id, why)

    def _write_down(self, connection: Connection) -> None:
        with connection.cursor() as cursor:
            if known.is_written_down(cursor):
                return
        with connection.transaction(), connection.cursor() as cursor:
            for sentence in known.write_down(cursor, registry.workflows().values()):
                log.error("its jobs are left to others: %s", sentence)

    def _publish(self, connection: Connection, worker_id: int) -> None:
        with connection.cursor() as cursor:
            self._revisions = known.runnable(cursor)
            cursor.execute(_PUBLISH, {"revisions": self._revisions, "worker": worker_id})

    def _read_lanes(self, connection: Connection) -> None:
        self.apart = [lane for (lane,) in connection.execute(_APART, [self._revisions]).fetchall()]


_PUBLISH = """
UPDATE workflows_worker SET revisions = %(revisions)s::bigint[]
WHERE id = %(worker)s AND revisions <> %(revisions)s::bigint[]
"""

_APART = (
    "SELECT id FROM workflows_lane WHERE revision_id IS NOT NULL AND NOT (revision_id = ANY(%s::bigint[]))"
)

_RETURNED = """
SELECT j.tenant_id, j.id FROM workflows_job j
JOIN workflows_knownrevision k ON (k.workflow, k.revision, k.digest) = (j.workflow, j.revision, j.configuration_digest)
WHERE j.held_for = 'revision' AND j.ended_at IS NULL AND k.id = ANY(%s::bigint[]) ORDER BY j.id LIMIT 200
"""

_LEFT = f"""
WITH gone AS MATERIALIZED (
  SELECT k.id, k.workflow, k.revision, k.digest FROM workflows_knownrevision k
  WHERE k.id IN (SELECT revision_id FROM workflows_lane WHERE revision_id IS NOT NULL)
    AND {known.WITHOUT_A_WORKER} >= %s)
(SELECT DISTINCT w.tenant_id, w.job_id, k.workflow, k.revision FROM gone k
JOIN workflows_lane l ON l.revision_id = k.id
JOIN workflows_workitem w ON w.lane_id = l.id AND w.state = {_READY} AND NOT w.limited AND w.deaths = 0 LIMIT 200)
UNION
(SELECT j.tenant_id, j.id, j.workflow, j.revision FROM gone k
JOIN workflows_job j ON (j.workflow, j.revision, j.configuration_digest) = (k.workflow, k.revision, k.digest)
WHERE j.ended_at IS NULL AND j.held_at IS NULL AND EXISTS (
  SELECT FROM workflows_workitem w JOIN workflows_lane l ON l.id = w.lane_id
  WHERE w.job_id = j.id AND w.state IN ({_OPEN}) AND l.revision_id = k.id)
ORDER BY j.id LIMIT 200)
"""
"""Jobs set apart for a revision that nobody has had for a while: by what is ready of them, and by the jobs."""
