"""The database's side of groups: nobody comes into one that was ended."""

from __future__ import annotations


def statements() -> str:
    """Functions and triggers; repeatable."""
    return """
CREATE OR REPLACE FUNCTION access_groupmember_born() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM access_group WHERE id = NEW.group_id AND ended_at IS NOT NULL) THEN
    RAISE EXCEPTION 'group % was ended', NEW.group_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER born BEFORE INSERT ON access_groupmember
  FOR EACH ROW EXECUTE FUNCTION access_groupmember_born();
"""
