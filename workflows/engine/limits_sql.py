"""SQL of named limits. Rows are locked shared ones first, then tenants' by id, in claims and in batches alike."""

# ruff: noqa: S608 - the statements are made of this file's own constants

from workflows.limits import ASKED_TO_WAIT
from workflows.states import ItemState

RUNNING = ItemState.RUNNING.number
_COLUMNS = """concurrency, requests_per_minute, tokens_per_minute, cost_per_day, requests_due, tokens_due, day, spent,
  average_tokens, average_cost, closed_until, closed_why"""

LOCK_SHARED = f"""
SELECT 0, name, {_COLUMNS} FROM workflows_sharedlimit WHERE name = ANY(%s::text[]) ORDER BY id FOR UPDATE
"""
LOCK_OWN = f"""
SELECT tenant_id, name, {_COLUMNS} FROM workflows_limit
WHERE (tenant_id, name) IN (SELECT * FROM unnest(%s::bigint[], %s::text[])) ORDER BY id FOR UPDATE
"""

RUNNING_UNDER = f"""
SELECT w.tenant_id, l.name, count(*) FROM workflows_workitem w JOIN workflows_lane l ON l.id = abs(w.lane_id)
WHERE w.state = {RUNNING} AND w.limited AND l.name = ANY(%s::text[]) GROUP BY w.tenant_id, l.name
"""

_WRITE = """SET requests_due = %(requests_due)s, tokens_due = %(tokens_due)s, day = %(day)s, spent = %(spent)s,
  closed_until = %(closed_until)s, closed_why = %(closed_why)s"""
WRITE_SHARED = f"UPDATE workflows_sharedlimit {_WRITE} WHERE name = %(name)s"
WRITE_OWN = f"UPDATE workflows_limit {_WRITE} WHERE tenant_id = %(tenant)s AND name = %(name)s"


def _settle(table: str, group: str, matches: str) -> str:
    return f"""
WITH d AS (
  SELECT {group}, count(*)::int AS items, sum(tokens)::float8 AS tokens, sum(cost) AS cost,
    sum(tokens - reserved_tokens)::float8 AS more_tokens, sum(cost - reserved_cost) AS more_cost,
    max(closes) AS closes
  FROM unnest(%(tenants)s::bigint[], %(names)s::text[], %(tokens)s::bigint[], %(costs)s::numeric[],
    %(reserved_tokens)s::float8[], %(reserved_costs)s::numeric[], %(closes)s::float8[])
  AS t(tenant, name, tokens, cost, reserved_tokens, reserved_cost, closes) GROUP BY {group})
UPDATE {table} l SET
  tokens_due = CASE WHEN l.tokens_per_minute IS NULL THEN l.tokens_due ELSE
    greatest(l.tokens_due, clock_timestamp())
      + d.more_tokens * 60 / (0.9 * l.tokens_per_minute) * interval '1 s' END,
  spent = CASE WHEN l.day = (clock_timestamp() AT TIME ZONE 'UTC')::date
    THEN greatest(0, l.spent + d.more_cost) ELSE greatest(0, d.cost) END,
  day = (clock_timestamp() AT TIME ZONE 'UTC')::date,
  average_tokens = CASE WHEN d.tokens = 0 THEN l.average_tokens WHEN l.average_tokens = 0 THEN d.tokens / d.items
    ELSE l.average_tokens * power(0.9, d.items) + d.tokens / d.items * (1 - power(0.9, d.items)) END,
  average_cost = CASE WHEN d.cost = 0 THEN l.average_cost WHEN l.average_cost = 0 THEN d.cost / d.items
    ELSE l.average_cost * power(0.9, d.items)::numeric + d.cost / d.items * (1 - power(0.9, d.items))::numeric END,
  closed_until = CASE WHEN d.closes IS NULL THEN l.closed_until
    ELSE greatest(l.closed_until, clock_timestamp() + least(d.closes, 86400) * interval '1 s') END,
  closed_why = CASE WHEN d.closes IS NULL THEN l.closed_why ELSE '{ASKED_TO_WAIT}' END
FROM d WHERE {matches}
"""


SETTLE = (
    "SELECT 1 FROM workflows_sharedlimit WHERE name = ANY(%(names)s::text[]) ORDER BY id FOR UPDATE",
    "SELECT 1 FROM workflows_limit WHERE (tenant_id, name) IN"
    " (SELECT * FROM unnest(%(tenants)s::bigint[], %(names)s::text[])) ORDER BY id FOR UPDATE",
    _settle("workflows_sharedlimit", "name", "l.name = d.name"),
    _settle("workflows_limit", "tenant, name", "l.tenant_id = d.tenant AND l.name = d.name"),
)
"""What a batch really used under its limits, in place of what its claims were charged."""
