"""Two functions that say how the machine is, across tenants and without anything of a tenant in it."""

# ruff: noqa: S608 - the statements are made of this file's own constants

from workflows.states import ItemState

READY = ItemState.READY.number
BACKING_OFF = ItemState.BACKING_OFF.number
RUNNING = ItemState.RUNNING.number
OVERDUE_SECONDS = 30
"""Promotion looks five times a second; what has been due for longer than this is not looked at by anybody."""
LANES = 200


def statements() -> str:
    """Repeatable. The first function belongs to the engine's role, which crosses tenants; the second to the login
    role, which sees its own sessions."""
    return f"""
GRANT CREATE ON SCHEMA public TO counterfoil_engine;
CREATE OR REPLACE FUNCTION workflows_health() RETURNS TABLE (
  workers int, late int, slots int, running int, swept_seconds float8, overdue int, oldest_seconds float8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  WITH RECURSIVE lanes AS (
    (SELECT lane_id FROM workflows_workitem
     WHERE state = {READY} AND NOT limited AND deaths = 0 AND lane_id > 0 ORDER BY lane_id LIMIT 1)
    UNION ALL
    SELECT (SELECT w.lane_id FROM workflows_workitem w
            WHERE w.state = {READY} AND NOT w.limited AND w.deaths = 0 AND w.lane_id > lanes.lane_id
            ORDER BY w.lane_id LIMIT 1)
    FROM lanes WHERE lanes.lane_id IS NOT NULL),
  fronts AS (
    SELECT f.since FROM (SELECT lane_id FROM lanes WHERE lane_id IS NOT NULL LIMIT {LANES}) l, LATERAL (
      SELECT greatest(s.opened_at, w.started_at) AS since FROM workflows_workitem w
      JOIN workflows_stage s ON s.id = w.stage_id
      WHERE w.state = {READY} AND NOT w.limited AND w.deaths = 0 AND w.lane_id = l.lane_id
      ORDER BY w.rank, w.id LIMIT 1) f)
  SELECT
    (SELECT count(*) FROM workflows_worker WHERE ended_at IS NULL AND lease_until > clock_timestamp())::int,
    (SELECT count(*) FROM workflows_worker WHERE ended_at IS NULL AND lease_until <= clock_timestamp())::int,
    (SELECT coalesce(sum(k.slots), 0) FROM workflows_worker k
     WHERE ended_at IS NULL AND lease_until > clock_timestamp())::int,
    (SELECT count(*) FROM workflows_workitem WHERE state = {RUNNING})::int,
    (SELECT extract(epoch FROM clock_timestamp() - max(swept_at)) FROM workflows_worker)::float8,
    (SELECT count(*) FROM (
      SELECT FROM workflows_workitem WHERE state = {BACKING_OFF}
        AND next_attempt_at < clock_timestamp() - interval '{OVERDUE_SECONDS} s' LIMIT 1000) due)::int,
    (SELECT extract(epoch FROM clock_timestamp() - min(since)) FROM fronts)::float8
$$;
ALTER FUNCTION workflows_health() OWNER TO counterfoil_engine;
REVOKE CREATE ON SCHEMA public FROM counterfoil_engine;
CREATE OR REPLACE FUNCTION counterfoil_old_sessions(seconds float8) RETURNS TABLE (
  pid int, who text, state text, age float8)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT a.pid, coalesce(nullif(a.application_name, ''), a.usename)::text, a.state,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8
  FROM pg_stat_activity a
  WHERE a.datname = current_database() AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()
    AND a.xact_start < clock_timestamp() - seconds * interval '1 s'
  UNION ALL
  SELECT 0, 'prepared transaction ' || p.gid, 'prepared', extract(epoch FROM clock_timestamp() - p.prepared)::float8
  FROM pg_prepared_xacts p
  WHERE p.database = current_database() AND p.prepared < clock_timestamp() - seconds * interval '1 s'
  ORDER BY 4 DESC
$$;
REVOKE ALL ON FUNCTION workflows_health(), counterfoil_old_sessions(float8) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION workflows_health(), counterfoil_old_sessions(float8) TO counterfoil_app, counterfoil_engine;
"""
