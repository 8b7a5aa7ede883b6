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

-- As the owner: the policies would show it no row but the scope's, and an opening outside of it would find nothing left.
CREATE OR REPLACE FUNCTION reconciliation_opens_when_looked_after() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, public AS $$
DECLARE found_operation bigint;
BEGIN
  IF OLD.restored_at IS NOT NULL AND (NEW.restored_at IS NULL OR NEW.restored_at < OLD.restored_at) THEN
    RAISE EXCEPTION 'organisation % was restored', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.shut_at IS NULL OR NEW.shut_at IS NOT NULL THEN
    RETURN NEW;
  END IF;
  SELECT o.id INTO found_operation FROM public.dispatch_operation o
    JOIN public.approvals_proposedoperation po ON po.id = o.proposed_id
    JOIN public.approvals_proposal p ON p.id = po.proposal_id
    JOIN public.workflows_job j ON j.id = o.job_id
    WHERE o.tenant_id = NEW.id AND CASE
      WHEN o.quarantined_at >= NEW.restored_at THEN o.state IN ('SUBMITTED', 'UNKNOWN', 'CONFLICTED') AND NOT EXISTS (
        SELECT FROM public.reconciliation_case c
        WHERE c.operation_id = o.id AND c.resolved_at IS NULL AND c.assignee_id IS NOT NULL)
      ELSE o.state IN ('PREPARED', 'SUBMITTED', 'UNKNOWN', 'NOT_APPLIED') AND p.frozen_at <= NEW.restored_at
        AND j.held_at IS NULL END LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'dispatch stays shut: operation % may have been sent since the backup', found_operation
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER opens_when_looked_after BEFORE UPDATE OF shut_at, restored_at ON access_tenant
  FOR EACH ROW EXECUTE FUNCTION reconciliation_opens_when_looked_after();
"""
