"""The database's side of this room: lines come only while their statement is read, and stay once it is applied."""

from __future__ import annotations

_OF_AN_UNAPPLIED = ("statementline", "rowerror", "repeatedrow")


def statements() -> str:
    """Functions and triggers of this room; repeatable."""
    return _STATEMENTS + "".join(_written_while_read(table) for table in _OF_AN_UNAPPLIED)


_STATEMENTS = """
CREATE OR REPLACE FUNCTION statements_moves() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (OLD.id, OLD.tenant_id, OLD.receiver_id, OLD.account) IS DISTINCT FROM
    (NEW.id, NEW.tenant_id, NEW.receiver_id, NEW.account) THEN
    RAISE EXCEPTION 'statement % is of its receiver''s account, for good', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state IN ('applied', 'discarded') AND NEW.state <> OLD.state THEN
    RAISE EXCEPTION 'statement % is %', OLD.id, OLD.state USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.state = 'applied' AND OLD IS DISTINCT FROM NEW THEN
    RAISE EXCEPTION 'an applied statement is not changed any more' USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.state = 'applied' AND OLD.state <> 'applied' THEN
    IF OLD.state <> 'read' THEN
      RAISE EXCEPTION 'statement % is not read to its end', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF EXISTS (SELECT FROM statements_rowerror WHERE statement_id = OLD.id)
      OR EXISTS (SELECT FROM statements_repeatedrow WHERE statement_id = OLD.id AND (verdict = 'asked'
        OR verdict = 'same' AND line_id IS NOT NULL)) THEN
      RAISE EXCEPTION 'statement % has rows that nobody has settled', OLD.id USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER moves BEFORE UPDATE ON statements_statement
  FOR EACH ROW EXECUTE FUNCTION statements_moves();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON statements_statement
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
CREATE OR REPLACE TRIGGER never_changed BEFORE UPDATE ON statements_statementline
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();

-- A statement at a time, since a file has a million rows: what changed is looked at once. The lock holds the state until
-- the end: no row comes or goes while somebody applies its statement, so what an applied one has cannot go.
CREATE OR REPLACE FUNCTION statements_only_while_open() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM FROM statements_statement WHERE id IN (SELECT statement_id FROM changed) FOR SHARE;
  IF EXISTS (SELECT FROM (SELECT DISTINCT statement_id FROM changed) c
    JOIN statements_statement s ON s.id = c.statement_id
    WHERE CASE TG_OP WHEN 'INSERT' THEN s.state <> 'reading' ELSE s.state = 'applied' END) THEN
    RAISE EXCEPTION '% of a statement that is not being read', TG_TABLE_NAME USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;

-- In place of foreign keys: a statement is there for good, and its own key holds its receiver.
CREATE OR REPLACE FUNCTION statements_line_is_of_its_statement() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM (SELECT DISTINCT tenant_id, statement_id, receiver_id FROM changed) c
    WHERE NOT EXISTS (SELECT FROM statements_statement s WHERE s.id = c.statement_id AND s.tenant_id = c.tenant_id
      AND s.receiver_id = c.receiver_id)) THEN
    RAISE EXCEPTION 'a line is of no statement of its receiver' USING ERRCODE = 'foreign_key_violation';
  END IF;
  RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER of_its_statement AFTER INSERT ON statements_statementline
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION statements_line_is_of_its_statement();
"""


def _written_while_read(table: str) -> str:
    return f"""
CREATE OR REPLACE TRIGGER only_while_read AFTER INSERT ON statements_{table}
  REFERENCING NEW TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION statements_only_while_open();
CREATE OR REPLACE TRIGGER only_before_applied AFTER DELETE ON statements_{table}
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION statements_only_while_open();
CREATE OR REPLACE TRIGGER settled_before_applied AFTER UPDATE ON statements_{table}
  REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION statements_only_while_open();
"""
