"""The tenant's own journal: what has no job. Written only through `record`, chained by the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import connection

from access.roles import Actor
from access.tenancy import require_scope


def record(*, event: str, actor: Actor, evidence: Mapping[str, Any]) -> int:
    """Append one entry to the scope's tenant and return its sequence. Runs in the caller's transaction.

    `event` is in the past tense ("receiver.paused"); `evidence` holds digests and references, never secrets.
    """
    assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO access_tenantentry (tenant_id, event, actor_kind, actor_id, actor_name, evidence)"
            " VALUES (%s, %s, %s, %s, %s, %s) RETURNING sequence",
            [
                require_scope(),
                event,
                actor.kind.value,
                actor.person_id,
                actor.name,
                json.dumps(evidence, sort_keys=True, ensure_ascii=False),
            ],
        )
        return int(cursor.fetchone()[0])


def statements() -> str:
    """The trigger function that numbers, dates and chains an entry; owned by the journal's role."""
    return """
DROP POLICY IF EXISTS journal_rows ON access_tenantentry;
ALTER TABLE access_tenantentry ALTER COLUMN id SET GENERATED ALWAYS;
GRANT CREATE ON SCHEMA public TO counterfoil_journal;
CREATE OR REPLACE FUNCTION access_tenantentry_chain() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE h public.access_tenanthead;
BEGIN
  INSERT INTO access_tenanthead (tenant_id, version, head) VALUES (NEW.tenant_id, 0, ''::bytea)
    ON CONFLICT (tenant_id) DO NOTHING;
  SELECT * INTO h FROM access_tenanthead WHERE tenant_id = NEW.tenant_id FOR UPDATE;
  NEW.sequence := h.version + 1;
  NEW.at := clock_timestamp();
  NEW.previous := h.head;
  NEW.hash := sha256(NEW.previous || int8send(NEW.tenant_id) || int8send(NEW.sequence)
    || int8send(counterfoil_micros(NEW.at)) || counterfoil_frame(NEW.event) || counterfoil_frame(NEW.actor_kind)
    || int8send(NEW.actor_id) || counterfoil_frame(NEW.actor_name) || counterfoil_frame(NEW.evidence));
  UPDATE access_tenanthead SET version = NEW.sequence, head = NEW.hash WHERE tenant_id = NEW.tenant_id;
  RETURN NEW;
END $$;
ALTER FUNCTION access_tenantentry_chain() OWNER TO counterfoil_journal;
REVOKE CREATE ON SCHEMA public FROM counterfoil_journal;
GRANT SELECT, INSERT, UPDATE ON access_tenanthead TO counterfoil_journal;
CREATE OR REPLACE TRIGGER chain BEFORE INSERT ON access_tenantentry
  FOR EACH ROW EXECUTE FUNCTION access_tenantentry_chain();
"""
