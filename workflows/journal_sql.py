"""The database's side of the journal: the trigger function that moves a job, and what keeps everybody else out.

Only `counterfoil_journal`, a role that nobody logs in as, may update a job's state, version and head; it owns the
SECURITY DEFINER function below, which runs before a journal row is inserted: it locks the job, compares sequence and
state, looks the transition up in the table of `states.py`, dates and chains the row, moves the job, and writes when it
has ended. The app's role can insert journal rows (not their id, time or hashes) and read them; it can do nothing else to
either.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

from workflows.states import ALLOWED, ENDED

MAY_MOVE = "state, version, head, ended_at"


def statements() -> str:
    """Functions, triggers and grants of this room; repeatable."""
    return f"{_advance()}\n{_guards()}"


def allowed_rows() -> str:
    """The table of states.py as SQL rows."""
    return ", ".join(f"('{a}', '{b}', '{c}')" for a, b, c in sorted(ALLOWED))


def ended_states() -> str:
    """The states in which a job has ended, as SQL."""
    return ", ".join(f"'{state}'" for state in sorted(ENDED))


def _advance() -> str:
    return f"""
ALTER TABLE workflows_journalentry ALTER COLUMN id SET GENERATED ALWAYS;
GRANT CREATE ON SCHEMA public TO counterfoil_journal;
CREATE OR REPLACE FUNCTION workflows_journal_advance() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE j record; moves boolean := NEW.to_state <> '';
BEGIN
  SELECT state, version, head INTO j FROM workflows_job
    WHERE id = NEW.job_id AND tenant_id = NEW.tenant_id FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'job % is not one of tenant %', NEW.job_id, NEW.tenant_id USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF NEW.sequence <> j.version + 1 THEN
    RAISE EXCEPTION 'job % is at version %, so entry % cannot follow', NEW.job_id, j.version, NEW.sequence
      USING ERRCODE = 'serialization_failure';
  END IF;
  IF moves THEN
    IF NEW.from_state <> j.state THEN
      RAISE EXCEPTION 'job % is %, not %', NEW.job_id, j.state, NEW.from_state USING ERRCODE = 'serialization_failure';
    END IF;
    IF (NEW.from_state, NEW.to_state, NEW.actor_kind) NOT IN (VALUES {allowed_rows()}) THEN
      RAISE EXCEPTION 'transition % to % is not allowed for %', NEW.from_state, NEW.to_state, NEW.actor_kind
        USING ERRCODE = 'check_violation';
    END IF;
  ELSIF j.state = '' OR NEW.from_state <> '' THEN
    RAISE EXCEPTION 'entry % of job % names no transition', NEW.sequence, NEW.job_id USING ERRCODE = 'check_violation';
  END IF;
  NEW.at := clock_timestamp();
  NEW.previous := j.head;
  NEW.hash := sha256(NEW.previous || int8send(NEW.tenant_id) || int8send(NEW.job_id) || int8send(NEW.sequence)
    || int8send(counterfoil_micros(NEW.at)) || counterfoil_frame(NEW.event) || counterfoil_frame(NEW.from_state)
    || counterfoil_frame(NEW.to_state) || counterfoil_frame(NEW.actor_kind) || int8send(NEW.actor_id)
    || counterfoil_frame(NEW.actor_name) || counterfoil_frame(NEW.evidence));
  UPDATE workflows_job SET state = CASE WHEN moves THEN NEW.to_state ELSE state END,
    version = NEW.sequence, head = NEW.hash,
    ended_at = CASE WHEN NOT moves THEN ended_at WHEN NEW.to_state IN ({ended_states()}) THEN NEW.at END
    WHERE id = NEW.job_id AND tenant_id = NEW.tenant_id;
  RETURN NEW;
END $$;
ALTER FUNCTION workflows_journal_advance() OWNER TO counterfoil_journal;
CREATE OR REPLACE FUNCTION workflows_job_has_begun() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM workflows_job WHERE id = NEW.id AND state = '') THEN
    RAISE EXCEPTION 'job % was saved without a journal entry', NEW.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NULL;
END $$;
ALTER FUNCTION workflows_job_has_begun() OWNER TO counterfoil_journal;
REVOKE CREATE ON SCHEMA public FROM counterfoil_journal;
GRANT SELECT ON workflows_job TO counterfoil_journal;
GRANT UPDATE ({MAY_MOVE}) ON workflows_job TO counterfoil_journal;
DROP POLICY IF EXISTS journal_rows ON workflows_job;
CREATE POLICY journal_rows ON workflows_job TO counterfoil_journal USING (true) WITH CHECK (true);
CREATE OR REPLACE TRIGGER advance BEFORE INSERT ON workflows_journalentry
  FOR EACH ROW EXECUTE FUNCTION workflows_journal_advance();
"""


def _guards() -> str:
    return """
CREATE OR REPLACE FUNCTION workflows_job_born_blank() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.state <> '' OR NEW.version <> 0 OR NEW.head <> ''::bytea THEN
    RAISE EXCEPTION 'a job begins with its first journal entry' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER born_blank BEFORE INSERT ON workflows_job
  FOR EACH ROW EXECUTE FUNCTION workflows_job_born_blank();
CREATE OR REPLACE FUNCTION workflows_job_moves_by_journal() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF current_user <> 'counterfoil_journal'
    AND (NEW.state, NEW.version, NEW.head) IS DISTINCT FROM (OLD.state, OLD.version, OLD.head) THEN
    RAISE EXCEPTION 'a job''s state changes only through the journal' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER moves_by_journal BEFORE UPDATE OF state, version, head ON workflows_job
  FOR EACH ROW EXECUTE FUNCTION workflows_job_moves_by_journal();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON workflows_job
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
DROP TRIGGER IF EXISTS has_begun ON workflows_job;
CREATE CONSTRAINT TRIGGER has_begun AFTER INSERT ON workflows_job DEFERRABLE INITIALLY DEFERRED
  FOR EACH ROW EXECUTE FUNCTION workflows_job_has_begun();
ALTER TABLE workflows_worker SET (fillfactor = 50);
ALTER TABLE workflows_workitem SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.01);
ALTER TABLE workflows_checkpoint ALTER COLUMN output SET STORAGE EXTERNAL;
ALTER TABLE workflows_iteminput ALTER COLUMN value SET STORAGE EXTERNAL;
ALTER TABLE workflows_storedfile ALTER COLUMN content SET STORAGE EXTERNAL;
"""
