"""Changing a job's work items from an action. The caller holds the job's lock (order: job → items)."""

from __future__ import annotations

from django.db import connection

from workflows.models import Job, Settled
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState


def cancel_open(*, job: Job) -> int:
    """Cancel every open or stuck item of a job. What runs finishes in vain: its result is recorded as stale.

    What stopped in a stage that was closed without it stays as it is: the job had gone on.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH mine AS (SELECT w.id FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
            " WHERE w.job_id = %s AND (w.state = ANY(%s) OR w.state = ANY(%s) AND s.closed_at IS NULL)"
            " ORDER BY w.id FOR NO KEY UPDATE OF w)"
            " UPDATE workflows_workitem w SET state = %s, finished_at = now() FROM mine WHERE w.id = mine.id",
            [
                job.pk,
                [s.number for s in OPEN_ITEM_STATES],
                [s.number for s in STUCK_ITEM_STATES],
                ItemState.CANCELLED.number,
            ],
        )
        cancelled = int(cursor.rowcount)
        cursor.execute(
            "UPDATE workflows_stage SET closed_at = now() WHERE job_id = %s AND closed_at IS NULL AND kind <> 'machine'",
            [job.pk],
        )
    drop_waits(job=job)
    return cancelled


def drop_waits(*, job: Job) -> int:
    """Settle the waits of items that are no longer open: cancelled, or skipped."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workflows_expectation e SET settled_at = now(), settled_how = %s FROM workflows_workitem w"
            " WHERE e.job_id = %s AND e.settled_at IS NULL AND w.id = e.item_id AND NOT (w.state = ANY(%s))",
            [Settled.CANCELLED.value, job.pk, [s.number for s in OPEN_ITEM_STATES]],
        )
        return int(cursor.rowcount)


timekeepers: set[str] = set()
"""Machines whose items a hold leaves where they are (`machines.register`)."""


def set_held(*, job: Job, held: bool) -> None:
    """Take a job's items out of the claim's sight, or back into it. No clock stops, nor what keeps one."""
    with connection.cursor() as cursor:
        cursor.execute(
            "WITH mine AS (SELECT w.id FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
            " WHERE w.job_id = %s AND NOT (s.kind = 'machine' AND s.name = ANY(%s))"
            " ORDER BY w.id FOR NO KEY UPDATE OF w)"
            " UPDATE workflows_workitem w SET lane_id = CASE WHEN %s THEN -abs(lane_id) ELSE abs(lane_id) END"
            " FROM mine WHERE w.id = mine.id",
            [job.pk, sorted(timekeepers), held],
        )
        if not held:
            cursor.execute("NOTIFY counterfoil_work")
