"""The database's side of this room: what has been answered stays as it was answered."""

from __future__ import annotations


def statements() -> str:
    """Functions and triggers of this room; repeatable."""
    return """
CREATE OR REPLACE FUNCTION reconciliation_answered_stays() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% % is answered', TG_TABLE_NAME, OLD.id USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE TRIGGER answered_stays BEFORE UPDATE ON reconciliation_case
  FOR EACH ROW WHEN (OLD.resolved_at IS NOT NULL) EXECUTE FUNCTION reconciliation_answered_stays();
CREATE OR REPLACE TRIGGER answered_stays BEFORE UPDATE ON reconciliation_resolutionrequest
  FOR EACH ROW WHEN (OLD.closed_at IS NOT NULL) EXECUTE FUNCTION reconciliation_answered_stays();
"""
