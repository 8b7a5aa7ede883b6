"""The database's side of this room: an operation moves only along `states.MOVES`, what was sent stays as it was
written, a job ends only when its operations are settled, and one that failed goes on only if none had an effect.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

from dispatch.states import MAY_STAND, MOVES, UNSETTLED, WITHOUT_EFFECT


def statements() -> str:
    """Functions and triggers of this room; repeatable."""
    moves = ", ".join(f"('{a}', '{b}')" for a, b in sorted(MOVES))
    unsettled = ", ".join(f"'{s}'" for s in UNSETTLED)
    may_stand = ", ".join(f"'{s}'" for s in MAY_STAND)
    without_effect = ", ".join(f"'{s}'" for s in WITHOUT_EFFECT)
    return f"""
CREATE OR REPLACE FUNCTION dispatch_operation_moves() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    IF NEW.state <> 'PREPARED' OR NEW.version <> 0 THEN
      RAISE EXCEPTION 'an operation begins as PREPARED' USING ERRCODE = 'check_violation';
    END IF;
  ELSIF NEW.state <> OLD.state THEN
    IF (OLD.state, NEW.state) NOT IN (VALUES {moves}) THEN
      RAISE EXCEPTION 'operation % cannot move from % to %', OLD.id, OLD.state, NEW.state
        USING ERRCODE = 'check_violation';
    END IF;
    IF OLD.state = 'PREPARED' AND NEW.state = 'UNKNOWN' AND NEW.quarantined_at IS NULL THEN
      RAISE EXCEPTION 'operation % was never sent', OLD.id USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.version <> OLD.version + 1 THEN
      RAISE EXCEPTION 'operation % is at version %, so % cannot follow', OLD.id, OLD.version, NEW.version
        USING ERRCODE = 'serialization_failure';
    END IF;
    IF NEW.state = 'CONFIRMED' AND NOT EXISTS (
      SELECT FROM dispatch_observation o WHERE o.operation_id = NEW.id AND o.proves AND o.finding = 'applied'
      AND NOT EXISTS (SELECT FROM dispatch_observation r
        WHERE r.operation_id = NEW.id AND r.kind = 'reopened' AND r.id > o.id)) THEN
      RAISE EXCEPTION 'operation % has no observation that proves it', OLD.id USING ERRCODE = 'check_violation';
    END IF;
  ELSIF NEW.version <> OLD.version THEN
    RAISE EXCEPTION 'the version of operation % counts its moves', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER moves BEFORE INSERT OR UPDATE ON dispatch_operation
  FOR EACH ROW EXECUTE FUNCTION dispatch_operation_moves();
-- Matches refer to it without a foreign key (`statements/matching/database.py`): it is there for good, under its key.
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON dispatch_operation
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
CREATE OR REPLACE TRIGGER keeps_its_key BEFORE UPDATE OF id, tenant_id ON dispatch_operation
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();

CREATE OR REPLACE FUNCTION dispatch_submission_kept() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF OLD.closed_at IS NOT NULL THEN
    RAISE EXCEPTION 'submission % is closed', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.may_have_been_sent_at IS NOT NULL
    AND NEW.may_have_been_sent_at IS DISTINCT FROM OLD.may_have_been_sent_at THEN
    RAISE EXCEPTION 'submission % is marked once', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.may_have_been_sent_at IS NULL AND NEW.may_have_been_sent_at IS NOT NULL AND (
    counterfoil_was_copied() OR EXISTS (
      SELECT FROM access_tenant WHERE id = NEW.tenant_id AND shut_at IS NOT NULL)) THEN
    RAISE EXCEPTION 'nothing is sent while dispatch is shut' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER kept BEFORE UPDATE ON dispatch_submission
  FOR EACH ROW EXECUTE FUNCTION dispatch_submission_kept();

CREATE OR REPLACE FUNCTION dispatch_ends_when_settled() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
DECLARE open_operation bigint;
BEGIN
  SELECT o.id INTO open_operation FROM dispatch_operation o
    WHERE o.job_id = NEW.job_id AND (o.state IN ({unsettled}) OR EXISTS (
      SELECT FROM dispatch_submission s WHERE s.operation_id = o.id AND s.closed_at IS NULL)) LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'job % cannot become %: operation % is not settled', NEW.job_id, NEW.to_state, open_operation
      USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.to_state = 'CONFIRMED' THEN
    SELECT o.id INTO open_operation FROM dispatch_operation o
      JOIN approvals_proposedoperation p ON p.id = o.proposed_id
      WHERE o.job_id = NEW.job_id AND o.state <> 'CONFIRMED' AND p.proposal_id = (
        SELECT max(p2.proposal_id) FROM dispatch_operation o2
        JOIN approvals_proposedoperation p2 ON p2.id = o2.proposed_id WHERE o2.job_id = NEW.job_id) LIMIT 1;
    IF FOUND THEN
      RAISE EXCEPTION 'job % cannot become CONFIRMED: operation % is not', NEW.job_id, open_operation
        USING ERRCODE = 'check_violation';
    END IF;
    IF NOT EXISTS (SELECT FROM dispatch_operation WHERE job_id = NEW.job_id AND state = 'CONFIRMED') THEN
      RAISE EXCEPTION 'job % has nothing that was confirmed', NEW.job_id USING ERRCODE = 'check_violation';
    END IF;
  END IF;
  RETURN NEW;
END $$;
-- Fires after `advance`, which sorts before it and has locked the job.
CREATE OR REPLACE TRIGGER ends_when_settled BEFORE INSERT ON workflows_journalentry
  FOR EACH ROW WHEN (NEW.to_state IN ('CONFIRMED', 'FAILED', 'CANCELLED'))
  EXECUTE FUNCTION dispatch_ends_when_settled();

-- How much of an operation its compensations take back, less what compensations of those give back. `sure`: only what is
-- confirmed, less all that may be given back; else all that is not surely in vain, less what is surely given back.
CREATE OR REPLACE FUNCTION dispatch_reversed(wanted bigint, sure boolean) RETURNS bigint LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, public AS $$
DECLARE total bigint;
BEGIN
  SELECT coalesce(sum(greatest(coalesce(r.amount_minor, 1) - (
      SELECT coalesce(sum(dispatch_reversed(o.id, NOT sure)), 0) FROM dispatch_operation o WHERE o.job_id = r.job_id
    ), 0)), 0) INTO total
    FROM dispatch_reversal r JOIN workflows_job j ON j.id = r.job_id
    WHERE r.original_id = wanted AND CASE
      WHEN sure THEN EXISTS (SELECT FROM dispatch_operation o WHERE o.job_id = r.job_id AND o.state = 'CONFIRMED')
      ELSE j.ended_at IS NULL OR EXISTS (
        SELECT FROM dispatch_operation o WHERE o.job_id = r.job_id AND o.state IN ({may_stand})) END;
  RETURN total;
END $$;
CREATE OR REPLACE FUNCTION dispatch_reverses_no_more() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
DECLARE o record;
BEGIN
  SELECT id, job_id, state, abs(amount_minor) AS amount_minor, currency, receipt_id INTO o FROM dispatch_operation
    WHERE id = NEW.original_id AND tenant_id = NEW.tenant_id FOR NO KEY UPDATE;
  IF NOT FOUND OR o.state <> 'CONFIRMED' OR o.job_id = NEW.job_id OR o.receipt_id <> NEW.receipt_id THEN
    RAISE EXCEPTION 'operation % was not applied as said', NEW.original_id USING ERRCODE = 'check_violation';
  END IF;
  IF (NEW.amount_minor IS NULL) <> (o.amount_minor IS NULL) OR NEW.currency <> o.currency
    OR coalesce(NEW.amount_minor, 1) + dispatch_reversed(o.id, false) > coalesce(o.amount_minor, 1) THEN
    RAISE EXCEPTION 'more of operation % would be taken back than was applied', o.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER reverses_no_more BEFORE INSERT ON dispatch_reversal
  FOR EACH ROW EXECUTE FUNCTION dispatch_reverses_no_more();

CREATE OR REPLACE FUNCTION dispatch_redriven_without_effect() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM dispatch_operation WHERE job_id = NEW.job_id AND state NOT IN ({without_effect})) THEN
    RAISE EXCEPTION 'job % cannot be redriven: an operation of it may have been applied', NEW.job_id
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER redriven_without_effect BEFORE INSERT ON workflows_journalentry
  FOR EACH ROW WHEN (NEW.from_state = 'FAILED' AND NEW.to_state = 'VALIDATED')
  EXECUTE FUNCTION dispatch_redriven_without_effect();
"""
