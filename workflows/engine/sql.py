"""The committer's set-based SQL. States are rendered as the small numbers that the hot table stores."""

# ruff: noqa: S608 - the statements are made of this file's own constants

from workflows.states import OPEN_ITEM_STATES, ItemState

READY = ItemState.READY.number
BACKING_OFF = ItemState.BACKING_OFF.number
RUNNING = ItemState.RUNNING.number
WAITING = ItemState.WAITING.number
SUCCEEDED = ItemState.SUCCEEDED.number
EXHAUSTED = ItemState.EXHAUSTED.number
REFUSED = ItemState.REFUSED.number
_OPEN = ", ".join(str(s.number) for s in OPEN_ITEM_STATES)

HOLD_LEASE = """
SELECT 1 FROM workflows_worker WHERE id = %s AND ended_at IS NULL AND lease_until > transaction_timestamp() FOR SHARE
"""
"""First in every batch: while it is held nobody can end this worker, so claims cannot be left to a dead one."""

LEASE_HELD = """EXISTS (
    SELECT FROM workflows_worker k
    WHERE k.id = %(worker)s AND k.ended_at IS NULL AND k.lease_until > transaction_timestamp())"""
"""What HOLD_LEASE found, in the same transaction. However long that waits for a job's lock meanwhile, nobody can renew the
lease, and nobody can take over what it is for: a result is ours as it was at the transaction's beginning."""

LEASE_LIVES = """EXISTS (
    SELECT FROM workflows_worker k
    WHERE k.id = %(worker)s AND k.ended_at IS NULL AND k.lease_until > clock_timestamp())"""

HELD_BY_US = f"""i.id = d.id AND i.claim_no = d.claim_no AND i.state + 0 = {RUNNING} AND i.worker_id + 0 = %(worker)s"""
"""Found by key. Put plainly, the server takes the small index of what runs, and with it every entry that a result before left
there: as long as somebody's snapshot is older than those, they stay, and each batch steps over all of them."""

_PLAINLY_READY = f"state = {READY} AND NOT limited AND deaths = 0"
_READY_UNDER_A_LIMIT = f"state = {READY} AND limited AND deaths = 0"
"""The conditions of the partial indexes item_ready and item_ready_limited, word for word."""

LOCK_JOBS_SHARED = "SELECT id FROM workflows_job WHERE id = ANY(%s) ORDER BY id FOR SHARE"
LOCK_JOBS = "SELECT id FROM workflows_job WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"

_TAKEN = f"""taken AS (
  UPDATE workflows_workitem w SET state = {RUNNING}, attempts = attempts + 1, claim_no = claim_no + 1,
    worker_id = %(worker)s, started_at = clock_timestamp(), next_attempt_at = NULL,
    first_started_at = coalesce(first_started_at, clock_timestamp())
  FROM chosen WHERE w.id = chosen.id
  RETURNING w.id, w.tenant_id, w.job_id, w.stage_id, w.key, w.ordinal, w.claim_no, w.attempts, w.attempts_limit,
    w.lane_id, w.started_at, w.deaths, extract(epoch FROM w.started_at - w.first_started_at)::float8 AS elapsed, w.rank)
SELECT taken.*, s.name, s.kind, s.ordinal, s.patience IS NOT NULL, l.name, coalesce(l.revision_id, 0), j.workflow, j.revision, j.configuration_digest, j.reference, i.value, j.reruns,
  extract(epoch FROM clock_timestamp() - statement_timestamp())::float8
FROM (VALUES (1)) AS always LEFT JOIN (taken
CROSS JOIN LATERAL (SELECT * FROM workflows_stage WHERE id = taken.stage_id AND tenant_id = taken.tenant_id OFFSET 0) s
CROSS JOIN LATERAL (SELECT * FROM workflows_job WHERE id = taken.job_id AND tenant_id = taken.tenant_id OFFSET 0) j
CROSS JOIN LATERAL (SELECT * FROM workflows_lane WHERE id = taken.lane_id AND tenant_id = taken.tenant_id OFFSET 0) l
LEFT JOIN LATERAL (SELECT value FROM workflows_iteminput WHERE item_id = taken.id ORDER BY version DESC LIMIT 1) i
  ON true) ON true
"""
"""What was taken, and in the last column how long that took; one row of nulls when it was nothing.

OFFSET 0, and the organisation beside the id: joined, or by an index of both, a table that had one row when it was last counted
is read whole for each item, however many it has now.
"""


def _walk(ready: str, *, also: str = "") -> str:
    """The lanes that have ready items, one probe of the index each: those after the cursor, then from the first one on."""

    def some(name: str, start: str, end: str) -> str:
        return f"""{name} AS (
  (SELECT w.lane_id FROM workflows_workitem w WHERE {ready} AND w.lane_id > {start} {end} {also}
   ORDER BY w.lane_id LIMIT 1)
  UNION ALL
  SELECT (SELECT w.lane_id FROM workflows_workitem w WHERE {ready} AND w.lane_id > {name}.lane_id {end}
          ORDER BY w.lane_id LIMIT 1)
  FROM {name} WHERE {name}.lane_id IS NOT NULL)"""

    return f"""{some("further", "%(cursor)s", "")},
{some("around", "0", "AND w.lane_id <= %(cursor)s")},
walked AS MATERIALIZED (
  SELECT lane_id FROM (SELECT lane_id FROM further UNION ALL SELECT lane_id FROM around) l
  WHERE lane_id IS NOT NULL AND lane_id <> ALL(%(apart)s::bigint[]) LIMIT %(lanes)s)"""


_SHARE = """share AS (
  SELECT greatest(1, ceil(%(free)s::numeric / greatest(1, (SELECT count(*) FROM walked))))::int AS each)"""

CLAIM = f"""
WITH RECURSIVE {_walk(_PLAINLY_READY, also=f"AND {LEASE_LIVES}")},
{_SHARE},
chosen AS (
  SELECT x.id FROM walked, share, LATERAL (
    SELECT id FROM workflows_workitem WHERE {_PLAINLY_READY} AND lane_id = walked.lane_id
    ORDER BY rank, id LIMIT share.each FOR UPDATE SKIP LOCKED) x
  LIMIT %(free)s),
{_TAKEN}"""
"""Lanes without a limit that have ready items, walked from the process's cursor on and around; each gives its share."""

CLAIM_ON = f"""
WITH marks AS MATERIALIZED (
  SELECT * FROM unnest(%(mark_lanes)s::bigint[], %(mark_ranks)s::bigint[], %(mark_ids)s::bigint[])
  AS m(lane_id, rank, id)),
gaps AS (
  SELECT lane_id AS low, lead(lane_id, 1, {2**63 - 1}) OVER (ORDER BY lane_id) AS high
  FROM (SELECT lane_id FROM marks UNION ALL SELECT 0) l),
lanes AS (
  SELECT m.lane_id, m.rank, m.id FROM marks m, LATERAL (
    SELECT 1 FROM workflows_workitem w WHERE {_PLAINLY_READY} AND w.lane_id = m.lane_id AND (w.rank, w.id) > (m.rank, m.id)
    ORDER BY w.rank, w.id LIMIT 1) x
  UNION ALL
  SELECT x.lane_id, -1, 0 FROM gaps, LATERAL (
    SELECT w.lane_id FROM workflows_workitem w
    WHERE {_PLAINLY_READY} AND w.lane_id > gaps.low AND w.lane_id < gaps.high
      AND w.lane_id <> ALL(%(apart)s::bigint[]) ORDER BY w.lane_id LIMIT 1) x),
walked AS MATERIALIZED (
  SELECT lane_id, rank, id FROM lanes WHERE lane_id <> ALL(%(apart)s::bigint[]) AND {LEASE_LIVES}
  ORDER BY lane_id <= %(cursor)s, lane_id LIMIT %(lanes)s),
{_SHARE},
chosen AS (
  SELECT x.id FROM walked, share, LATERAL (
    SELECT w.id FROM workflows_workitem w
    WHERE {_PLAINLY_READY} AND w.lane_id = walked.lane_id AND (w.rank, w.id) > (walked.rank, walked.id)
    ORDER BY w.rank, w.id LIMIT share.each FOR UPDATE SKIP LOCKED) x
  LIMIT %(free)s),
{_TAKEN}"""
"""The same from the marks on (`marks.py`), without stepping over what lies before them; and of each lane between two
that have one, from its start."""

CLAIM_SUSPECT = f"""
WITH chosen AS (
  SELECT w.id FROM workflows_workitem w
  WHERE w.state = {READY} AND w.deaths > 0 AND w.lane_id > 0 AND NOT w.limited AND {LEASE_LIVES}
    AND w.lane_id <> ALL(%(apart)s::bigint[])
  ORDER BY w.id LIMIT 1 FOR UPDATE SKIP LOCKED),
{_TAKEN}"""
"""One item whose worker stopped before: a process holds one such at a time, so that another death tells which it was."""

SUSPECT_LANES = f"""
SELECT l.id, l.tenant_id, l.name FROM workflows_lane l WHERE l.id IN (
  SELECT lane_id FROM workflows_workitem WHERE state = {READY} AND deaths > 0 AND limited
    AND lane_id > 0 AND lane_id <> ALL(%(apart)s::bigint[])) ORDER BY l.id
"""
"""Lanes under a limit that have such an item."""

LIMITED_LANES = f"""
WITH RECURSIVE {_walk(_READY_UNDER_A_LIMIT)}
SELECT l.id, l.tenant_id, l.name FROM walked w JOIN workflows_lane l ON l.id = w.lane_id
ORDER BY l.id <= %(cursor)s, l.id
"""
"""Lanes under a limit that have ready items, from the cursor on and around."""

ANY_LIMITED = f"SELECT 1 FROM workflows_workitem WHERE {_READY_UNDER_A_LIMIT} AND lane_id > 0 LIMIT 1"
"""Whether there is anything for that walk."""

CLAIM_LIMITED = f"""
WITH allowed AS (SELECT * FROM unnest(%(lanes)s::bigint[], %(counts)s::int[]) AS a(lane_id, count)),
chosen AS (
  SELECT x.id FROM allowed, LATERAL (
    SELECT id FROM workflows_workitem WHERE {_READY_UNDER_A_LIMIT} AND lane_id = allowed.lane_id AND {LEASE_LIVES}
    ORDER BY rank, id LIMIT allowed.count FOR UPDATE SKIP LOCKED) x),
{_TAKEN}"""
"""As many of each lane as its limits allow now; the limits' rows are locked by the caller."""

CLAIM_LIMITED_SUSPECT = f"""
WITH allowed AS (SELECT * FROM unnest(%(lanes)s::bigint[], %(counts)s::int[]) AS a(lane_id, count)),
chosen AS (
  SELECT w.id FROM workflows_workitem w JOIN allowed USING (lane_id)
  WHERE w.state = {READY} AND w.deaths > 0 AND w.limited AND {LEASE_LIVES}
  ORDER BY w.id LIMIT 1 FOR UPDATE OF w SKIP LOCKED),
{_TAKEN}"""
"""One suspect of them."""

COMPLETE = f"""
WITH d AS (
  SELECT * FROM unnest(%(ids)s::bigint[], %(claims)s::int[], %(states)s::smallint[], %(outcomes)s::text[],
    %(outputs)s::text[], %(digests)s::text[], %(classes)s::text[], %(messages)s::text[], %(traces)s::text[],
    %(answers)s::text[], %(routes)s::text[], %(tokens_in)s::int[], %(tokens_out)s::int[], %(costs)s::numeric[],
    %(unpriced)s::int[], %(by_route)s::text[], %(waits)s::timestamptz[], %(seconds)s::float8[], %(ended)s::timestamptz[], %(resets)s::boolean[])
  AS t(id, claim_no, state, outcome, output, digest, error_class, error_message, trace, answer, route, tokens_in,
    tokens_out, cost, unpriced, by_route, wait_until, wait_seconds, ended_at, reset)),
u AS (
  UPDATE workflows_workitem i SET
    state = CASE WHEN d.state IN ({WAITING}, {SUCCEEDED}) AND i.next_attempt_at IS NOT NULL THEN {BACKING_OFF}
      ELSE d.state END,
    next_attempt_at = CASE
      WHEN d.state IN ({WAITING}, {SUCCEEDED}) THEN coalesce(i.next_attempt_at, d.wait_until)
      WHEN d.state = {BACKING_OFF} THEN least(
        coalesce(d.wait_until, clock_timestamp() + d.wait_seconds * interval '1 s'), i.next_attempt_at) END,
    deaths = CASE WHEN d.reset THEN 0 ELSE i.deaths END,
    attempts = CASE WHEN d.reset THEN 0 WHEN d.outcome IN ('released', 'waiting') THEN i.attempts - 1
      ELSE i.attempts END,
    first_started_at = CASE WHEN d.outcome = 'released' AND i.attempts = 1 THEN NULL ELSE i.first_started_at END,
    finished_at = CASE WHEN d.state IN ({SUCCEEDED}, {EXHAUSTED}, {REFUSED}) THEN clock_timestamp() END
  FROM d
  WHERE {HELD_BY_US} AND {LEASE_HELD}
  RETURNING i.id, i.tenant_id, i.started_at, i.attempts, d.claim_no, d.outcome, d.output, d.digest, d.error_class,
    d.error_message, d.trace, d.answer, d.route, d.tokens_in, d.tokens_out, d.cost, d.unpriced,
    d.by_route, d.ended_at),
c AS (
  INSERT INTO workflows_checkpoint (tenant_id, item_id, version, output, digest, created_at)
  SELECT u.tenant_id, u.id, coalesce((SELECT max(version) FROM workflows_checkpoint k WHERE k.item_id = u.id), 0) + 1,
    u.output, u.digest, clock_timestamp()
  FROM u WHERE u.output IS NOT NULL),
a AS (
  INSERT INTO workflows_attempt (tenant_id, item_id, number, claim_no, worker_name, started_at, ended_at, outcome,
    error_class, error_message, trace, answer, route, tokens_in, tokens_out, cost, unpriced, by_route)
  SELECT u.tenant_id, u.id,
    greatest(u.attempts + CASE WHEN u.outcome IN ('released', 'waiting') THEN 1 ELSE 0 END, 1), u.claim_no, %(name)s::text, u.started_at,
    greatest(u.ended_at, u.started_at), u.outcome, u.error_class, u.error_message, u.trace, u.answer, u.route,
    u.tokens_in, u.tokens_out, u.cost, u.unpriced, u.by_route FROM u)
SELECT u.id FROM u
"""
"""Accept results whose claim is still ours, under HOLD_LEASE; ids that do not come back are stale."""

STALE = """
INSERT INTO workflows_attempt (tenant_id, item_id, number, claim_no, worker_name, started_at, ended_at, outcome,
  error_class, error_message, trace, answer, route, tokens_in, tokens_out, cost, unpriced, by_route)
SELECT i.tenant_id, i.id, d.number, d.claim_no, %(name)s::text, d.started_at, greatest(d.ended_at, d.started_at), 'stale',
  d.error_class, d.error_message, d.trace, d.answer, d.route, d.tokens_in, d.tokens_out, d.cost,
  d.unpriced, d.by_route
FROM unnest(%(ids)s::bigint[], %(claims)s::int[], %(numbers)s::smallint[], %(classes)s::text[], %(messages)s::text[],
  %(traces)s::text[], %(answers)s::text[], %(routes)s::text[], %(tokens_in)s::int[], %(tokens_out)s::int[],
  %(costs)s::numeric[], %(unpriced)s::int[], %(by_route)s::text[], %(started)s::timestamptz[],
  %(ended)s::timestamptz[])
AS d(id, claim_no, number, error_class, error_message, trace, answer, route, tokens_in, tokens_out, cost, unpriced,
  by_route, started_at, ended_at)
JOIN workflows_workitem i ON i.id = d.id
WHERE NOT EXISTS (SELECT FROM workflows_attempt a
                  WHERE a.item_id = d.id AND a.claim_no = d.claim_no AND a.worker_name = %(name)s::text
                    AND a.outcome NOT IN ('lease lost', 'worker died', 'timed out'))
"""
"""Once for each result; what a takeover wrote in the worker's name about the same claim is another fact."""

ALREADY_SAVED = """
SELECT a.item_id, a.claim_no FROM workflows_attempt a
JOIN unnest(%s::bigint[], %s::int[]) AS d(id, claim_no) ON a.item_id = d.id AND a.claim_no = d.claim_no
WHERE a.worker_name = %s AND a.outcome NOT IN ('lease lost', 'worker died')
"""
"""After a commit whose answer was lost: which results are saved after all."""

OPEN_NEXT = f"""
WITH n AS (
  SELECT t.* FROM unnest(%(items)s::bigint[], %(claims)s::int[], %(jobs)s::bigint[], %(tenants)s::bigint[],
    %(stages)s::bigint[], %(digests)s::text[], %(lanes)s::bigint[], %(names)s::text[], %(ordinals)s::int[],
    %(kinds)s::text[], %(limits)s::smallint[], %(limited)s::boolean[], %(floors)s::bigint[])
  AS t(item_id, claim_no, job_id, tenant_id, stage_id, digest, lane_id, name, ordinal, kind, attempts_limit, limited,
    floor)
  JOIN workflows_workitem i ON i.id = t.item_id AND i.claim_no = t.claim_no AND i.state = {SUCCEEDED}
  JOIN workflows_job j ON j.id = t.job_id AND j.state = 'VALIDATED'),
closed AS (
  UPDATE workflows_stage s SET closed_at = clock_timestamp(), digest = n.digest FROM n
  WHERE s.id = n.stage_id AND s.closed_at IS NULL
    AND NOT EXISTS (SELECT FROM workflows_stage x WHERE x.job_id = n.job_id AND x.name = n.name)
  RETURNING s.job_id),
opened AS (
  INSERT INTO workflows_stage (tenant_id, job_id, name, ordinal, kind, total, opened_at, digest)
  SELECT n.tenant_id, n.job_id, n.name, n.ordinal, n.kind, 1, clock_timestamp(), '' FROM n JOIN closed USING (job_id)
  ON CONFLICT (job_id, name) DO NOTHING RETURNING id, job_id)
INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, limited, rank, state, attempts,
  attempts_limit, claim_no)
SELECT n.tenant_id, n.job_id, opened.id, '1', 1, n.lane_id, n.limited,
  coalesce(CASE WHEN n.limited
    THEN (SELECT min(rank) FROM workflows_workitem x WHERE x.lane_id = n.lane_id AND {_READY_UNDER_A_LIMIT}
      AND rank >= n.floor)
    ELSE (SELECT min(rank) FROM workflows_workitem x WHERE x.lane_id = n.lane_id AND {_PLAINLY_READY}
      AND rank >= n.floor) END, n.floor),
  {READY}, 0, n.attempts_limit, 0
FROM opened JOIN n USING (job_id)
RETURNING job_id
"""
"""A single step's successor is opened in the batch itself, its job locked; other stages by the advancer, and so is what
comes after a step that a migration kept ahead."""

CLOSED_BARRIERS = f"""
SELECT t.stage_id FROM unnest(%s::bigint[], %s::bigint[]) AS t(job_id, stage_id)
WHERE NOT EXISTS (SELECT FROM workflows_workitem w
                  WHERE w.job_id = t.job_id AND w.stage_id = t.stage_id AND w.state IN ({_OPEN}))
"""
