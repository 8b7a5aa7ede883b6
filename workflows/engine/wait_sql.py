"""SQL of the batches in which an item begins to wait, or in which its time was up."""

# ruff: noqa: S608 - the statements are made of this file's own constants

from workflows.engine.sql import HELD_BY_US, LEASE_HELD
from workflows.states import ItemState

_ENDED = ", ".join(str(s.number) for s in (ItemState.SUCCEEDED, ItemState.REFUSED))

ASK = f"""
INSERT INTO workflows_expectation (tenant_id, job_id, item_id, kind, key, source, question, role, schema, asked_at,
  due_at)
SELECT i.tenant_id, i.job_id, i.id, d.kind, d.key, d.source, d.question, d.role, d.schema, clock_timestamp(),
  coalesce(d.until, clock_timestamp() + d.seconds * interval '1 s')
FROM unnest(%(ids)s::bigint[], %(claims)s::int[], %(kinds)s::text[], %(keys)s::text[], %(sources)s::text[],
  %(questions)s::text[], %(roles)s::text[], %(schemas)s::text[], %(untils)s::timestamptz[], %(seconds)s::float8[])
AS d(id, claim_no, kind, key, source, question, role, schema, until, seconds)
JOIN workflows_workitem i ON {HELD_BY_US} AND {LEASE_HELD}
ORDER BY d.key, d.id
ON CONFLICT DO NOTHING
RETURNING item_id, due_at
"""
"""Before the results are recorded, in their transaction. What does not come back has lost its claim, or its key is
waited for by another item. Sorted, so that two batches with the same keys queue up for them."""

SETTLE = f"""
UPDATE workflows_expectation e SET settled_at = clock_timestamp(), settled_how = d.how
FROM unnest(%(ids)s::bigint[], %(claims)s::int[], %(hows)s::text[]) AS d(id, claim_no, how)
JOIN workflows_workitem i ON i.id = d.id AND i.claim_no = d.claim_no AND i.state IN ({_ENDED})
WHERE e.item_id = i.id AND e.settled_at IS NULL
"""
"""After the results are recorded: waits whose time was up."""
