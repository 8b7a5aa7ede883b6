"""The database's side of receivers' secrets: what one organisation names, no other can.

An admin chooses where a receiver is, so whoever could name another organisation's secret would be sent it.
"""

from __future__ import annotations


def statements() -> str:
    """Functions and triggers; repeatable. Every version of a contract counts: what was frozen under an old one is sent so."""
    return """
CREATE OR REPLACE FUNCTION dispatch_secrets_in(terms jsonb) RETURNS SETOF text LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog, public AS $$
  -- Whose certificates are believed is no secret, and a company's own authority is shared.
  SELECT DISTINCT v #>> '{}' FROM jsonb_path_query(terms #- '{tls,authorities}', '$.** ? (@.type() == "string")') v
  WHERE v #>> '{}' ~ '^(env:COUNTERFOIL_RECEIVER_|file:/run/secrets/)'
$$;
-- It has to see every tenant's, so it runs as its owner. The lock makes two tenants that name one secret queue.
CREATE OR REPLACE FUNCTION dispatch_secret_is_ours() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE
  named text[];
  one text;
BEGIN
  IF TG_TABLE_NAME = 'dispatch_receiver' THEN
    named := array_remove(ARRAY[NEW.secret_reference::text], '');
  ELSE
    named := ARRAY(SELECT s FROM dispatch_secrets_in(NEW.terms) s ORDER BY s);
  END IF;
  FOREACH one IN ARRAY named LOOP
    PERFORM pg_advisory_xact_lock(hashtextextended('counterfoil receiver secret ' || one, 0));
    IF EXISTS (SELECT FROM dispatch_receiver r WHERE r.tenant_id <> NEW.tenant_id AND r.secret_reference = one)
      OR EXISTS (SELECT FROM dispatch_receivercontract c WHERE c.tenant_id <> NEW.tenant_id
        AND one IN (SELECT dispatch_secrets_in(c.terms))) THEN
      RAISE EXCEPTION '% belongs to another organisation', one USING ERRCODE = 'check_violation';
    END IF;
  END LOOP;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER secret_is_ours BEFORE INSERT OR UPDATE OF secret_reference ON dispatch_receiver
  FOR EACH ROW EXECUTE FUNCTION dispatch_secret_is_ours();
CREATE OR REPLACE TRIGGER secret_is_ours BEFORE INSERT ON dispatch_receivercontract
  FOR EACH ROW EXECUTE FUNCTION dispatch_secret_is_ours();
"""
