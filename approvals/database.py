"""The database's side of approvals: what raw SQL cannot do either.

A proposal is born open while its job is VALIDATED, with the digest of its own document; its operations come in the
same breath and none later. A decision carries the proposal's digest and comes before closing and expiry, one that
counts a person. `approved_at` needs the decisions that make the quorum. A closing is written once. What an approved
proposal has reserved stays until the proposal is closed or back at its approvers, and what was decided about a closed
one stands.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

from approvals import looking_sql
from approvals.models import Proposal, Verdict

MAY_CHANGE = Proposal.app_rights.update


def statements() -> str:
    """Functions and triggers of this room; repeatable."""
    parts = (_policy(), _born(), _changes(), _operations(), _decisions(), _voids(), _reservations())
    return "".join(parts) + looking_sql.statements()


def _policy() -> str:
    # The columns are what other statements read; the rules are what people wrote. Both have to say the same.
    return """
CREATE OR REPLACE FUNCTION approvals_level_quorums(rules text) RETURNS TABLE (number bigint, quorum int)
LANGUAGE sql IMMUTABLE AS $$
  SELECT n, coalesce((level->>'quorum')::int, 1)
  FROM jsonb_array_elements(coalesce(rules::jsonb->'levels', '[{}]')) WITH ORDINALITY AS l(level, n)
$$;
CREATE OR REPLACE FUNCTION approvals_policy_agrees() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (NEW.quorum, NEW.four_eyes, NEW.waives_approval) IS DISTINCT FROM (
    (SELECT sum(quorum)::int FROM approvals_level_quorums(NEW.rules)),
    coalesce((NEW.rules::jsonb->>'four_eyes')::boolean, true),
    coalesce((NEW.rules::jsonb->>'waives_approval')::boolean, false)) THEN
    RAISE EXCEPTION 'the columns of policy % differ from its rules', NEW.name USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER agrees BEFORE INSERT ON approvals_policy
  FOR EACH ROW EXECUTE FUNCTION approvals_policy_agrees();
"""


def _born() -> str:
    return """
CREATE OR REPLACE FUNCTION approvals_proposal_born() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.digest <> encode(sha256(convert_to(NEW.document, 'UTF8')), 'hex') THEN
    RAISE EXCEPTION 'the digest is not that of the document' USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.closed_at IS NOT NULL OR NEW.approved_at IS NOT NULL THEN
    RAISE EXCEPTION 'a proposal is born open and undecided' USING ERRCODE = 'check_violation';
  END IF;
  IF NOT EXISTS (SELECT FROM workflows_job WHERE id = NEW.job_id AND tenant_id = NEW.tenant_id
    AND state = 'VALIDATED') THEN
    RAISE EXCEPTION 'only a validated job gets a proposal' USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.quorum IS DISTINCT FROM (SELECT CASE WHEN waives_approval THEN 0 ELSE quorum END FROM approvals_policy
    WHERE id = NEW.policy_id) OR NEW.initiator_id IS DISTINCT FROM (SELECT submitted_by_id FROM workflows_job
    WHERE id = NEW.job_id) THEN
    RAISE EXCEPTION 'a proposal has the quorum of its policy and the initiator of its job'
      USING ERRCODE = 'check_violation';
  END IF;
  IF EXISTS (SELECT FROM approvals_policy WHERE id = NEW.policy_id AND end_reason <> '') THEN
    RAISE EXCEPTION 'nothing is asked under a policy that was ended' USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER born BEFORE INSERT ON approvals_proposal
  FOR EACH ROW EXECUTE FUNCTION approvals_proposal_born();
CREATE OR REPLACE TRIGGER never_deleted BEFORE DELETE ON approvals_proposal
  FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();
"""


def _changes() -> str:
    fixed = [f.column for f in Proposal._meta.concrete_fields if f.column not in MAY_CHANGE]
    new, old = (", ".join(f"{row}.{column}" for column in fixed) for row in ("NEW", "OLD"))
    return f"""
CREATE OR REPLACE FUNCTION approvals_live_approvals(proposal bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT count(DISTINCT coalesce(d.on_behalf_of_id, d.person_id)) FROM approvals_decision d
  WHERE d.proposal_id = proposal AND d.verdict = '{Verdict.APPROVE}'
    AND NOT EXISTS (SELECT FROM approvals_decisionvoid v WHERE v.decision_id = d.id)
$$;
CREATE OR REPLACE FUNCTION approvals_levels_lacking(proposal bigint) RETURNS bigint LANGUAGE sql STABLE AS $$
  SELECT count(*) FROM approvals_proposal p JOIN approvals_policy y ON y.id = p.policy_id
  CROSS JOIN LATERAL approvals_level_quorums(y.rules) l
  WHERE p.id = proposal AND p.quorum > 0 AND l.quorum > (
    SELECT count(DISTINCT coalesce(d.on_behalf_of_id, d.person_id)) FROM approvals_decision d
    WHERE d.proposal_id = p.id AND d.verdict = '{Verdict.APPROVE}' AND d.level = l.number
      AND NOT EXISTS (SELECT FROM approvals_decisionvoid v WHERE v.decision_id = d.id))
$$;
CREATE OR REPLACE FUNCTION approvals_proposal_changes() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ({new}) IS DISTINCT FROM ({old}) THEN
    RAISE EXCEPTION 'a proposal is immutable' USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.closed_at IS NOT NULL AND (NEW.approved_at, NEW.closed_at, NEW.closing, NEW.closing_reason)
    IS DISTINCT FROM (OLD.approved_at, OLD.closed_at, OLD.closing, OLD.closing_reason) THEN
    RAISE EXCEPTION 'proposal % is closed', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.closing = 'sent' AND NEW.approved_at IS NULL THEN
    RAISE EXCEPTION 'proposal % is not approved', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.approved_at IS NULL AND NEW.approved_at IS NOT NULL
    AND (approvals_live_approvals(OLD.id) < greatest(OLD.quorum, CASE WHEN OLD.two_because <> '' THEN 2 ELSE 0 END) OR approvals_levels_lacking(OLD.id) > 0) THEN
    RAISE EXCEPTION 'proposal % lacks approvals', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  IF OLD.approved_at IS NOT NULL AND NEW.approved_at IS DISTINCT FROM OLD.approved_at
    AND (NEW.approved_at IS NOT NULL OR NOT EXISTS (SELECT FROM workflows_job WHERE id = OLD.job_id
      AND state = 'AWAITING_APPROVAL')) THEN
    RAISE EXCEPTION 'proposal % stays approved until its job goes back', OLD.id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER changes BEFORE UPDATE ON approvals_proposal
  FOR EACH ROW EXECUTE FUNCTION approvals_proposal_changes();
"""


def _operations() -> str:
    return """
CREATE OR REPLACE FUNCTION approvals_operation_born() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF NEW.body_digest <> encode(sha256(NEW.body), 'hex') THEN
    RAISE EXCEPTION 'the digest is not that of the body' USING ERRCODE = 'check_violation';
  END IF;
  IF NOT EXISTS (SELECT FROM approvals_proposal p JOIN workflows_job j ON j.id = p.job_id
    WHERE p.id = NEW.proposal_id AND p.tenant_id = NEW.tenant_id AND p.closed_at IS NULL
      AND j.state = 'VALIDATED') THEN
    RAISE EXCEPTION 'proposal % is frozen', NEW.proposal_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER born BEFORE INSERT ON approvals_proposedoperation
  FOR EACH ROW EXECUTE FUNCTION approvals_operation_born();
"""


def _decisions() -> str:
    # The lock makes two deciders queue, raw SQL included; each later statement then sees what the first committed.
    return """
CREATE OR REPLACE FUNCTION approvals_decision_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE p record; earlier bigint;
BEGIN
  SELECT * INTO p FROM approvals_proposal WHERE id = NEW.proposal_id AND tenant_id = NEW.tenant_id
    FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'proposal % is not one of tenant %', NEW.proposal_id, NEW.tenant_id
      USING ERRCODE = 'foreign_key_violation';
  END IF;
  IF p.closed_at IS NOT NULL OR p.approved_at IS NOT NULL THEN
    RAISE EXCEPTION 'proposal % is no longer open to decisions', p.id USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.digest <> p.digest THEN
    RAISE EXCEPTION 'the decision is about another digest than proposal % has', p.id
      USING ERRCODE = 'check_violation';
  END IF;
  IF clock_timestamp() >= p.expires_at THEN
    RAISE EXCEPTION 'proposal % has expired', p.id USING ERRCODE = 'check_violation';
  END IF;
  IF NOT EXISTS (SELECT FROM workflows_job WHERE id = p.job_id AND state = 'AWAITING_APPROVAL') THEN
    RAISE EXCEPTION 'the job of proposal % awaits no approval', p.id USING ERRCODE = 'check_violation';
  END IF;
  IF (NEW.delegation_id IS NULL) <> (NEW.on_behalf_of_id IS NULL) OR NEW.delegation_id IS NOT NULL AND NOT EXISTS (
    SELECT FROM access_delegation g WHERE g.id = NEW.delegation_id AND g.tenant_id = NEW.tenant_id
      AND g.taker_id = NEW.person_id AND g.giver_id = NEW.on_behalf_of_id AND g.revoked_at IS NULL
      AND clock_timestamp() >= g.starts_at AND clock_timestamp() < g.ends_at) THEN
    RAISE EXCEPTION 'person % was not lent this authority', NEW.person_id USING ERRCODE = 'check_violation';
  END IF;
  IF p.initiator_id IN (NEW.person_id, NEW.on_behalf_of_id) AND (SELECT four_eyes FROM approvals_policy WHERE id = p.policy_id) THEN
    RAISE EXCEPTION 'person % started the job of proposal %', NEW.person_id, p.id USING ERRCODE = 'check_violation';
  END IF;
  IF EXISTS (SELECT FROM unnest(ARRAY[NEW.person_id, NEW.on_behalf_of_id]) AS who(id)
    WHERE who.id IS NOT NULL AND NOT EXISTS (SELECT FROM access_membership m JOIN access_person a ON a.id = m.person_id
      WHERE m.tenant_id = NEW.tenant_id AND m.person_id = who.id AND m.role = 'manager' AND m.ended_at IS NULL
        AND a.is_active)) THEN
    RAISE EXCEPTION 'person % is no manager, or acts for one who is none', NEW.person_id
      USING ERRCODE = 'check_violation';
  END IF;
  IF EXISTS (SELECT FROM approvals_decision d WHERE d.proposal_id = p.id
    AND ARRAY[d.person_id, d.on_behalf_of_id] && ARRAY[NEW.person_id, NEW.on_behalf_of_id]
    AND NOT EXISTS (SELECT FROM approvals_decisionvoid v WHERE v.decision_id = d.id)) THEN
    RAISE EXCEPTION 'person % has decided on proposal % already', NEW.person_id, p.id
      USING ERRCODE = 'unique_violation';
  END IF;
  SELECT count(*) INTO earlier FROM approvals_decision d
    WHERE d.proposal_id = p.id AND d.person_id = NEW.person_id;
  NEW.round := earlier + 1;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER allowed BEFORE INSERT ON approvals_decision
  FOR EACH ROW EXECUTE FUNCTION approvals_decision_allowed();
"""


def _voids() -> str:
    return """
CREATE OR REPLACE FUNCTION approvals_void_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE closed timestamptz;
BEGIN
  SELECT p.closed_at INTO closed FROM approvals_proposal p JOIN approvals_decision d ON d.proposal_id = p.id
    WHERE d.id = NEW.decision_id FOR NO KEY UPDATE OF p;
  IF closed IS NOT NULL THEN
    RAISE EXCEPTION 'the proposal of decision % is closed', NEW.decision_id USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER allowed BEFORE INSERT ON approvals_decisionvoid
  FOR EACH ROW EXECUTE FUNCTION approvals_void_allowed();
"""


def _reservations() -> str:
    # Whether something of a closed proposal was applied is known above; who is sent nothing yet is known here.
    return """
CREATE OR REPLACE FUNCTION approvals_reservation_allowed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE p record;
BEGIN
  SELECT q.approved_at, q.closed_at, q.recipient, y.name INTO p FROM approvals_proposal q
    JOIN approvals_policy y ON y.id = q.policy_id WHERE q.id = NEW.proposal_id;
  IF TG_OP = 'INSERT' AND (p.approved_at IS NULL OR (NEW.policy_name, NEW.recipient) IS DISTINCT FROM (p.name, p.recipient))
  THEN
    RAISE EXCEPTION 'proposal % reserves when it is approved, as itself', NEW.proposal_id
      USING ERRCODE = 'check_violation';
  END IF;
  IF NEW.released_at IS NOT NULL AND p.approved_at IS NOT NULL AND p.closed_at IS NULL THEN
    RAISE EXCEPTION 'proposal % is approved and keeps what it has reserved', NEW.proposal_id
      USING ERRCODE = 'check_violation';
  END IF;
  RETURN NEW;
END $$;
CREATE OR REPLACE TRIGGER allowed BEFORE INSERT OR UPDATE OF released_at ON approvals_reservation
  FOR EACH ROW EXECUTE FUNCTION approvals_reservation_allowed();
"""
