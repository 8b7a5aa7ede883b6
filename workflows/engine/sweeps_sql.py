"""SQL of what looks around beside the batches: due work, takeovers, what a crash left behind."""

# ruff: noqa: S608 - the statements are made of this file's own constants

from workflows.states import OPEN_ITEM_STATES, ItemState

READY = ItemState.READY.number
BACKING_OFF = ItemState.BACKING_OFF.number
RUNNING = ItemState.RUNNING.number
WAITING = ItemState.WAITING.number
EXHAUSTED = ItemState.EXHAUSTED.number
REFUSED = ItemState.REFUSED.number
SUCCEEDED = ItemState.SUCCEEDED.number
_OPEN = ", ".join(str(s.number) for s in OPEN_ITEM_STATES)
DEATHS = 3
"""So many workers may stop while they run an item; then it stops itself, whatever attempts it has left."""

OLD_FILES = """
SELECT id FROM workflows_storedfile f WHERE offered_at < clock_timestamp() - interval '24 hours'
  AND NOT EXISTS (SELECT FROM workflows_jobfile j WHERE j.file_id = f.id)
ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED
"""
DELETE_FILES = """
DELETE FROM workflows_storedfile f WHERE id = ANY(%s)
  AND NOT EXISTS (SELECT FROM workflows_jobfile j WHERE j.file_id = f.id)
"""
"""In a statement of its own after the lock: by now it sees a job that was submitted between the two."""

ORPHANS = f"""
WITH mine AS (
  SELECT id FROM workflows_workitem WHERE worker_id = %(worker)s AND state = {RUNNING}
    AND NOT (id = ANY(%(held)s::bigint[])) ORDER BY id FOR UPDATE SKIP LOCKED)
UPDATE workflows_workitem w SET state = {READY}, attempts = attempts - 1 FROM mine WHERE w.id = mine.id
"""
"""Claims whose commit succeeded although its answer was lost: nothing ran, so nothing is counted."""

PROMOTE = f"""
WITH due AS (
  SELECT id FROM workflows_workitem WHERE state = {BACKING_OFF} AND next_attempt_at <= statement_timestamp()
  ORDER BY next_attempt_at LIMIT 500 FOR UPDATE SKIP LOCKED),
over AS (
  SELECT id FROM workflows_workitem WHERE state = {WAITING} AND next_attempt_at <= statement_timestamp()
  ORDER BY next_attempt_at LIMIT 500 FOR UPDATE SKIP LOCKED)
UPDATE workflows_workitem w SET state = {READY}, next_attempt_at = NULL
FROM (SELECT id FROM due UNION ALL SELECT id FROM over) x WHERE w.id = x.id
"""
"""Items whose pause, or whose wait, is over. By the statement's time: a clock that runs on while it looks would have
every item looked at that is not due yet."""

WAITS = """
SELECT tenant_id, job_id, id FROM workflows_expectation
WHERE id > %(after)s AND settled_at IS NULL AND begun_at IS NULL ORDER BY id LIMIT %(some)s
"""
"""Waits that were recorded, and whose process died before it journalled them and looked for their events."""

MISSED_EVENTS = """
SELECT e.tenant_id, e.job_id, x.id FROM workflows_externalevent x
JOIN workflows_expectation e ON e.tenant_id = x.tenant_id AND e.key = x.key AND e.settled_at IS NULL
  AND e.source IN ('', x.source)
WHERE x.id > %(after)s AND x.closed_at IS NULL AND e.key <> '' AND (e.due_at IS NULL OR x.received_at < e.due_at)
ORDER BY x.id LIMIT %(some)s
"""
"""Events and waits that were committed in the same instant, so that neither saw the other."""

SUSPECTS = f"SELECT 1 FROM workflows_workitem WHERE state = {READY} AND deaths > 0 AND lane_id > 0 LIMIT 1"

TAKE_OVER_ITEMS = f"""
WITH theirs AS (
  SELECT id, deaths FROM workflows_workitem WHERE worker_id = %(worker)s AND state = {RUNNING} ORDER BY id FOR UPDATE),
known AS (SELECT count(*) FILTER (WHERE deaths > 0) > 0 AS suspect FROM theirs),
judged AS (
  SELECT w.id,
    CASE WHEN %(outcome)s::text = 'released' THEN 1 ELSE 0 END AS back,
    CASE WHEN %(outcome)s::text <> 'released' AND (w.deaths > 0 OR NOT known.suspect) THEN 1 ELSE 0 END AS death,
    CASE WHEN %(outcome)s::text <> 'released' AND w.deaths = 0 AND known.suspect THEN 1 ELSE 0 END AS more
  FROM theirs JOIN workflows_workitem w USING (id), known),
freed AS (
  UPDATE workflows_workitem w SET
    state = CASE WHEN attempts - back >= attempts_limit + more OR deaths + death >= {DEATHS} THEN {EXHAUSTED}
      ELSE {READY} END,
    finished_at = CASE WHEN attempts - back >= attempts_limit + more OR deaths + death >= {DEATHS}
      THEN clock_timestamp() END,
    attempts = attempts - back, attempts_limit = attempts_limit + more, deaths = deaths + death
  FROM judged WHERE w.id = judged.id
  RETURNING w.id, w.tenant_id, w.attempts + judged.back AS number, w.claim_no, w.started_at)
INSERT INTO workflows_attempt (tenant_id, item_id, number, claim_no, worker_name, started_at, ended_at, outcome,
  error_class, error_message, route, tokens_in, tokens_out, cost)
SELECT tenant_id, id, number, claim_no, %(name)s::text, started_at, clock_timestamp(), %(outcome)s::text, '',
  %(message)s::text, '', 0, 0, 0 FROM freed
"""
"""Frees a worker's items. An attempt counts also when its worker died, but not when it was asked to stop.

Which of the running items stopped the worker is not known, so the first time all of them are suspects, and suspects
run one at a time in a process. When a worker stops with a suspect in it, it was the suspect: the others get the
attempt back, as one more.
"""

LEFT_BEHIND = f"""
SELECT s.tenant_id, s.job_id, s.id FROM workflows_stage s JOIN workflows_job j ON j.id = s.job_id
WHERE s.id > %(after)s AND s.closed_at IS NULL AND s.kind <> 'machine' AND j.ended_at IS NULL
  AND NOT EXISTS (SELECT FROM workflows_workitem w
                  WHERE w.job_id = s.job_id AND w.stage_id = s.id AND w.state IN ({_OPEN}, {EXHAUSTED}, {REFUSED}))
ORDER BY s.id LIMIT %(some)s
"""
"""Stages whose last item was saved, and whose process died before it moved the job on."""

UNREPORTED = f"""
WITH stuck AS MATERIALIZED (
  SELECT tenant_id, id, job_id, stage_id FROM workflows_workitem
  WHERE state IN ({EXHAUSTED}, {REFUSED}) AND reported_at IS NULL ORDER BY id LIMIT 20000),
short AS MATERIALIZED (
  SELECT s.id FROM (SELECT DISTINCT job_id, stage_id FROM stuck) g JOIN workflows_stage s ON s.id = g.stage_id
  WHERE s.need IS NULL OR s.closed_at IS NULL AND s.total - s.need < (
    SELECT count(*) FROM workflows_workitem x
    WHERE x.job_id = g.job_id AND x.stage_id = g.stage_id AND x.state IN ({EXHAUSTED}, {REFUSED})))
SELECT tenant_id, id FROM stuck WHERE stage_id IN (SELECT id FROM short) ORDER BY id LIMIT 200
"""
"""Stopped items that need a person: of a stage that some are enough for only once there can no longer be enough."""

PATIENT = """
SELECT s.tenant_id, s.job_id, s.id FROM workflows_stage s JOIN workflows_job j ON j.id = s.job_id
WHERE s.id > %(after)s AND s.closed_at IS NULL AND s.kind <> 'machine' AND s.patience IS NOT NULL AND j.ended_at IS NULL
ORDER BY s.id LIMIT %(some)s
"""
"""Open stages that may go on before each of their items has come to an end."""
