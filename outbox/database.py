"""The database's side of the outbox: what a message says stays, what was delivered stays delivered, and nothing else
can be deleted, and that not within a day."""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

from outbox.models import Message


def statements() -> str:
    """Functions and triggers of this room; repeatable."""
    may_change = {*Message.app_rights.update, *Message.engine_rights.update}
    fixed = [f.column for f in Message._meta.concrete_fields if f.column not in may_change]
    new, old = (", ".join(f"{row}.{column}" for column in fixed) for row in ("NEW", "OLD"))
    return f"""
CREATE OR REPLACE FUNCTION outbox_message_born() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.claim_no <> 0 OR NEW.attempts <> 0 OR NEW.claimed_by <> '' OR NEW.delivered_at IS NOT NULL
    OR NEW.given_up_at IS NOT NULL THEN
    RAISE EXCEPTION 'a message is born waiting' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER born BEFORE INSERT ON outbox_message
  FOR EACH ROW EXECUTE FUNCTION outbox_message_born();
CREATE OR REPLACE FUNCTION outbox_message_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ({new}) IS DISTINCT FROM ({old}) THEN
    RAISE EXCEPTION 'what a message says is immutable' USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.delivered_at IS NOT NULL THEN
    RAISE EXCEPTION 'message % was delivered', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.claim_no < OLD.claim_no THEN
    RAISE EXCEPTION 'the token of message % never goes back', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.delivered_at IS NOT NULL AND OLD.claimed_by = '' THEN
    RAISE EXCEPTION 'nobody was delivering message %', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER changes BEFORE UPDATE ON outbox_message
  FOR EACH ROW EXECUTE FUNCTION outbox_message_changes();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON outbox_message
  FOR EACH ROW WHEN (OLD.delivered_at IS NULL OR OLD.delivered_at > now() - interval '1 day')
  EXECUTE FUNCTION counterfoil_refuse_change();
CREATE OR REPLACE FUNCTION outbox_can_go(message bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM outbox_message WHERE id = message AND delivered_at <= now() - interval '1 day')
$$;
DROP TRIGGER IF EXISTS append_only ON outbox_try;
CREATE OR REPLACE TRIGGER never_changed BEFORE UPDATE ON outbox_try
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
CREATE OR REPLACE TRIGGER kept BEFORE DELETE ON outbox_try
  FOR EACH ROW WHEN (NOT outbox_can_go(OLD.message_id)) EXECUTE FUNCTION counterfoil_refuse_change();
-- It has to see every tenant's, so it runs as its owner. The lock makes two tenants that name one secret queue.
CREATE OR REPLACE FUNCTION outbox_secret_is_ours() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('counterfoil webhook secret ' || NEW.secret_reference, 0));
  IF EXISTS (SELECT FROM outbox_endpoint e WHERE e.tenant_id <> NEW.tenant_id AND (
    e.secret_reference = NEW.secret_reference
    OR e.previous_reference = NEW.secret_reference AND e.previous_until > clock_timestamp())) THEN
    RAISE EXCEPTION '% signs for another organisation', NEW.secret_reference USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER secret_is_ours BEFORE INSERT OR UPDATE OF secret_reference ON outbox_endpoint
  FOR EACH ROW EXECUTE FUNCTION outbox_secret_is_ours();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON outbox_endpoint
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
"""
