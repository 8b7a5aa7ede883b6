"""How a database knows that it was put back from a dump: its one row names the table and the server it was written in.

A dump carries the row, and whoever puts it back makes the table anew, under another number; a server that is made anew
has another number itself. So row and place disagree, in the database alone, whatever put it there. What copies files
(a snapshot of the disk, a standby, CREATE DATABASE with a TEMPLATE) keeps both numbers, and is not noticed.
"""

from __future__ import annotations


def statements() -> str:
    """The row, the question, and the wall around the row; repeatable."""
    return f"{TABLE}{_THE_REST}"


TABLE = """
CREATE TABLE IF NOT EXISTS access_installation (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row), home_table bigint NOT NULL, home_server bigint NOT NULL);
"""
_THE_REST = """
INSERT INTO access_installation (home_table, home_server)
  SELECT 'public.access_installation'::regclass::oid::bigint, system_identifier FROM pg_control_system()
  ON CONFLICT DO NOTHING;

CREATE OR REPLACE FUNCTION counterfoil_was_copied() RETURNS boolean LANGUAGE sql STABLE
SET search_path = pg_catalog, public AS $$
  SELECT NOT EXISTS (
    SELECT FROM public.access_installation i, pg_control_system() s
    WHERE i.home_table = to_regclass('public.access_installation')::oid::bigint AND i.home_server = s.system_identifier)
$$;

CREATE OR REPLACE FUNCTION access_at_home_when_shut() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM public.access_tenant WHERE shut_at IS NULL) THEN
    RAISE EXCEPTION 'dispatch is shut for every organisation before a copy counts as the installation'
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER at_home_when_shut BEFORE UPDATE ON access_installation
  FOR EACH ROW EXECUTE FUNCTION access_at_home_when_shut();
"""
