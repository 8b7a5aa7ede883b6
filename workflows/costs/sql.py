"""SQL of counting costs and of reading them. Both see an attempt the same way, through `_uses`.

An attempt counts for each route that it used, on the day of its tenant's zone and in the hour in which it ended.
"""

# ruff: noqa: S608 - the statements are made of this file's own constants

from workflows.states import JobState

_SUMS = ("cost", "unpriced", "tokens_in", "tokens_out")
_LIST = ", ".join(_SUMS)
_REFUSED = f"j.state IN ('{JobState.FAILED}', '{JobState.CANCELLED}')"


def statements() -> str:
    """Functions of this room; repeatable."""
    return f"""
CREATE OR REPLACE FUNCTION counterfoil_zone(name text) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  PERFORM now() AT TIME ZONE name;
  RETURN name;
EXCEPTION WHEN invalid_parameter_value THEN
  RETURN 'UTC';
END $$;
-- STABLE: it sees the very snapshot of the query that calls it, so sums and what is not in them yet belong together.
CREATE OR REPLACE FUNCTION workflows_uncounted(anew boolean, jobs bigint[]) RETURNS TABLE (
  tenant_id bigint, job_id bigint, stage_id bigint, workflow varchar, refused boolean, gave_result boolean, day date,
  hour timestamptz, route text, attempts int, cost numeric, unpriced bigint, tokens_in bigint, tokens_out bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE counted bigint := 0;
BEGIN
  IF NOT anew THEN
    counted := coalesce((SELECT counted_up_to FROM workflows_costbook), 0);
  END IF;
  -- EXECUTE plans for this very number: of many attempts few are beyond it.
  IF jobs IS NULL THEN
    RETURN QUERY EXECUTE $q$ WITH {_uses("a.id > $1")} SELECT * FROM uses $q$ USING counted;
  ELSE
    RETURN QUERY EXECUTE $q$ WITH {_uses(_OF_THESE_JOBS)} SELECT * FROM uses $q$ USING counted, jobs;
  END IF;
END $$;
"""


_OF_THESE_JOBS = "a.id > $1 AND a.item_id IN (SELECT id FROM workflows_workitem WHERE job_id = ANY($2))"


def _uses(where: str) -> str:
    """CTEs of which the last, `uses`, has a row for each route of each attempt that recorded any."""
    return f"""
batch AS MATERIALIZED (
  SELECT a.tenant_id, a.item_id, a.outcome, a.ended_at, a.route, a.tokens_in, a.tokens_out, a.cost, a.unpriced,
    a.by_route FROM workflows_attempt a WHERE {where} AND a.route <> ''),
zone AS MATERIALIZED (
  SELECT id, counterfoil_zone(time_zone) AS name FROM access_tenant WHERE id IN (SELECT tenant_id FROM batch)),
uses AS (
  SELECT b.tenant_id, w.job_id, w.stage_id, j.workflow, {_REFUSED} AS refused, b.outcome IN ('succeeded', 'waiting') AS gave_result,
    (b.ended_at AT TIME ZONE z.name)::date AS day, date_trunc('hour', b.ended_at, 'UTC') AS hour,
    r.route::text, (r.route = b.route)::int AS attempts, r.cost, r.unpriced, r.tokens_in, r.tokens_out
  FROM batch b
  JOIN zone z ON z.id = b.tenant_id
  JOIN workflows_workitem w ON w.id = b.item_id
  JOIN workflows_job j ON j.id = w.job_id
  CROSS JOIN LATERAL (
    SELECT b.route, b.tokens_in::bigint, b.tokens_out::bigint, b.cost, b.unpriced::bigint WHERE b.by_route = ''
    UNION ALL
    SELECT x.route, x.tokens_in, x.tokens_out, x.cost, x.unpriced
    FROM jsonb_to_recordset((CASE WHEN b.by_route = '' THEN '[]' ELSE b.by_route END)::jsonb)
      AS x(route text, tokens_in bigint, tokens_out bigint, cost numeric, unpriced bigint)) r)"""


def _fate(of: str) -> str:
    return f"CASE WHEN NOT {of}.gave_result THEN 'failed' WHEN {of}.refused THEN 'refused' ELSE 'kept' END"


def _sum(of: str) -> str:
    return ", ".join(f"sum({of}.{column}) AS {column}" for column in _SUMS)


def _added(table: str) -> str:
    return ", ".join(f"{column} = {table}.{column} + excluded.{column}" for column in _SUMS)


_ONE = "job_id, stage_id, day, hour, route, gave_result"
_KEY = "tenant_id, day, hour, workflow, route, fate"
_ADD_UP = f"ON CONFLICT ({_KEY}) DO UPDATE SET {_added('workflows_spending')}"

OPEN_BOOK = "INSERT INTO workflows_costbook (only_row, counted_up_to, currency) VALUES (true, 0, '') ON CONFLICT DO NOTHING"
TAKE_BOOK = "SELECT counted_up_to FROM workflows_costbook FOR UPDATE SKIP LOCKED"
WRITE_BOOK = "UPDATE workflows_costbook SET counted_up_to = %s"
SETTLE_CURRENCY = """
UPDATE workflows_costbook b SET currency = %(currency)s
WHERE currency = '' OR NOT EXISTS (SELECT FROM workflows_spending WHERE cost <> 0)
  AND NOT EXISTS (SELECT FROM workflows_attempt a WHERE a.id > b.counted_up_to AND a.cost <> 0)
"""
LAST_ATTEMPT = "SELECT coalesce(max(id), 0) FROM workflows_attempt"

WRITERS = """
SELECT virtualtransaction FROM pg_locks
WHERE locktype = 'relation' AND relation = 'workflows_attempt'::regclass AND mode = 'RowExclusiveLock'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Transactions that may have taken the id of an attempt which nobody else sees yet: they hold this lock before that."""

COUNT = f"""
WITH {_uses("a.id > %(counted)s AND a.id <= %(upto)s")},
grouped AS (
  SELECT u.tenant_id, u.job_id, u.stage_id, u.workflow, u.day, u.hour, u.route, u.gave_result,
    bool_or(u.refused) AS refused, sum(u.attempts) AS attempts, {_sum("u")}
  FROM uses u GROUP BY u.tenant_id, u.job_id, u.stage_id, u.workflow, u.day, u.hour, u.route, u.gave_result),
of_jobs AS (
  INSERT INTO workflows_jobspending (tenant_id, {_ONE}, refused, attempts, {_LIST})
  SELECT tenant_id, {_ONE}, refused, attempts, {_LIST} FROM grouped
  ON CONFLICT ({_ONE}) DO UPDATE SET attempts = workflows_jobspending.attempts + excluded.attempts,
    {_added("workflows_jobspending")}
  RETURNING {_ONE}, refused)
INSERT INTO workflows_spending ({_KEY}, {_LIST})
SELECT g.tenant_id, g.day, g.hour, g.workflow, g.route, {_fate("s")}, {_sum("g")}
FROM grouped g JOIN of_jobs s USING ({_ONE})
GROUP BY 1, 2, 3, 4, 5, 6
{_ADD_UP}
"""
"""A row of a job that is there already keeps the fate under which its results are counted, until a review moves it."""

_MOVED = f"""
  SELECT s.tenant_id, s.day, s.hour, r.workflow, s.route, x.fate, {", ".join(f"x.sign * s.{c} AS {c}" for c in _SUMS)}
  FROM {{moved}} s JOIN reviewed r ON r.id = s.job_id
  CROSS JOIN LATERAL (VALUES
    (CASE WHEN r.refused THEN 'refused' ELSE 'kept' END, 1), (CASE WHEN r.refused THEN 'kept' ELSE 'refused' END, -1)
  ) AS x(fate, sign)"""

REVIEW = f"""
WITH due AS (
  DELETE FROM workflows_spendingreview WHERE id IN (
    SELECT id FROM workflows_spendingreview ORDER BY id LIMIT 1000) RETURNING job_id),
reviewed AS (
  SELECT j.id, j.workflow, {_REFUSED} AS refused FROM workflows_job j WHERE j.id IN (SELECT job_id FROM due)),
moved AS (
  UPDATE workflows_jobspending s SET refused = r.refused FROM reviewed r
  WHERE s.job_id = r.id AND s.gave_result AND s.refused <> r.refused RETURNING s.*),
shifts AS ({_MOVED.format(moved="moved")}),
written AS (
  INSERT INTO workflows_spending ({_KEY}, {_LIST})
  SELECT {_KEY}, {_sum("shifts")} FROM shifts GROUP BY {_KEY}
  {_ADD_UP})
SELECT count(*) FROM due
"""

_READ = f"""
WITH reviewed AS (
  SELECT j.id, j.workflow, {_REFUSED} AS refused FROM workflows_job j
  WHERE j.id IN (SELECT job_id FROM workflows_spendingreview)),
moved AS (
  SELECT s.* FROM workflows_jobspending s JOIN reviewed r ON s.job_id = r.id
  WHERE s.gave_result AND s.refused <> r.refused AND NOT %(anew)s),
rows AS (
  SELECT day, hour, workflow, route, fate, {_LIST} FROM workflows_spending
  WHERE tenant_id = counterfoil_tenant() AND day BETWEEN %(since)s AND %(until)s AND NOT %(anew)s
  UNION ALL
  SELECT day, hour, workflow, route, fate, {_LIST} FROM ({_MOVED.format(moved="moved")}) m
  UNION ALL
  SELECT u.day, u.hour, u.workflow, u.route, {_fate("u")}, {", ".join(f"u.{c}" for c in _SUMS)}
  FROM workflows_uncounted(%(anew)s, NULL) u)
SELECT fate, {_sum("rows")}{{keys}} FROM rows
WHERE day BETWEEN %(since)s AND %(until)s AND hour >= %(from_hour)s
GROUP BY fate{{keys}}
HAVING sum(tokens_in) <> 0 OR sum(tokens_out) <> 0 OR sum(cost) <> 0 OR sum(unpriced) <> 0
ORDER BY fate{{keys}}
"""

OF_JOBS = f"""
WITH rows AS (
  SELECT {_ONE}, attempts, {_LIST} FROM workflows_jobspending WHERE job_id = ANY(%(jobs)s)
  UNION ALL
  SELECT {_ONE}, attempts, {_LIST} FROM workflows_uncounted(false, %(jobs)s))
SELECT job_id, stage_id, route, gave_result, sum(attempts), {_sum("rows")}
FROM rows GROUP BY job_id, stage_id, route, gave_result ORDER BY job_id, stage_id, route, gave_result
"""


def read_by(*keys: str) -> str:
    """The statement that sums up by fate and these columns. `anew`: from the attempts alone."""
    return _READ.format(keys="".join(f", {key}" for key in keys))
