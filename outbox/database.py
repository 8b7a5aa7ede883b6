"""The database's side of the outbox: what a message says stays, and what was delivered stays delivered."""

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
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON outbox_endpoint
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
"""
