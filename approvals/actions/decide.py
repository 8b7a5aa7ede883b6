"""One person's verdict on one proposal: the one function behind every door (page, API, bulk).

Locks job → work items (only to reject) → proposal. A guard is read after the locks, so two managers who press at
once queue on the job's row: the second reads what the first committed. Raised refusals are kept (`refusing.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.db import IntegrityError

from access import authority, reentry
from access.refusals import NotPermitted
from access.roles import Actor, Role
from access.statements import insert
from access.tenancy import acting
from approvals import sums
from approvals.actions.asked import (
    AlreadyDecided,
    Asked,
    DecisionResult,
    Expired,
    From,
    HeldOrCancelRequested,
    PasswordNeeded,
    ProposalClosed,
    SameAgain,
    StaleProposal,
    parse,
)
from approvals.actions.refusing import keeps_refusals
from approvals.aftermath import twins_of
from approvals.closing import DID, close, how_it_closed
from approvals.facts import facts_of
from approvals.locks import database_clock, job_of, lock_open_items, lock_proposal
from approvals.missing import note_approvers
from approvals.models import Closing, Decision, Proposal, Verdict
from approvals.objections import NotAnApprover, NotInBulk
from approvals.rules import Facts, Way
from approvals.wording import clock, count
from web.vocabulary import named
from workflows import items, journal
from workflows.locks import lock_job
from workflows.models import Job
from workflows.states import JobState


def record_decision(
    *,
    tenant_id: int,
    proposal_id: int,
    person_id: int,
    verdict: str,
    digest: str,
    now: datetime,
    reason: str = "",
    fields: Sequence[str] = (),
    knows_of: int = 0,
    authenticated_by: str = "password",
    session: str = "",
    door: str = "page",
) -> DecisionResult:
    """Record a verdict and do what follows from it: the quorum's transition, a cancelled job, a job sent back.

    `digest` is the one that was on the person's screen; `knows_of` the newest proposal that asks for the same, which they
    said they know of and want done again; `session` (`reentry.session_digest`) is where they would have
    entered their password again. The same verdict and digest again changes nothing and says when it was given. Locks
    job → work items (to reject) → proposal → the policy's sums, where it has any. Raises NoSuchProposal,
    NoSuchVerdict, ReasonMissing, an Objection, NotInBulk, PasswordNeeded, StaleProposal, SameAgain, AlreadyDecided, ProposalClosed, Expired,
    HeldOrCancelRequested, SomebodyElseIsDeciding; each refusal of an existing proposal is kept as a row and in the journal.
    """
    with keeps_refusals(tenant_id, proposal_id, person_id, verdict, now):
        asked = parse(verdict, digest, reason, fields, knows_of, From(authenticated_by, session, door, now))
        try:
            with acting(tenant_id):
                return _decide(proposal_id, person_id, asked)
        except IntegrityError as refused:
            # The clock, or somebody who changes who may decide, came between our look and the insert, where the database
            # looks again.
            said = str(refused)
            if "has expired" in said:
                raise Expired("This proposal has just expired. Nothing was decided.") from refused
            if "is no manager" in said or "was not lent this authority" in said:
                raise NotAnApprover(
                    "Your authority to decide this has just ended. Nothing was decided."
                ) from refused
            raise


def has_expired(expires_at: datetime, *clocks: datetime) -> bool:
    """Whether any of the clocks has reached the expiry; the exact moment counts."""
    return any(at >= expires_at for at in clocks)


def is_stale(asked: Asked, proposal: Proposal) -> bool:
    """Whether what was on the person's screen is something else than the proposal."""
    return asked.digest != proposal.digest


def _decide(proposal_id: int, person_id: int, asked: Asked) -> DecisionResult:
    job = lock_job(job_of(proposal_id))
    if asked.verdict is Verdict.REJECT:
        lock_open_items(job)
    proposal = lock_proposal(proposal_id)
    actor = _manager(person_id)
    facts = _facts(proposal, asked)
    own = facts.own(person_id)
    if own is not None:
        return _repeat(job, facts, own, asked)
    way = _check(job, facts, person_id, asked)
    decision = _insert(facts, way, asked, _entered(facts, person_id, asked))
    if asked.verdict is Verdict.REJECT:
        sentence = _reject(job, proposal, decision, actor, asked.source.now)
    elif asked.verdict is Verdict.REQUEST_CHANGES:
        sentence = _request_changes(job, proposal, decision, actor, asked)
    else:
        sentence = _approve(job, proposal, decision, actor, facts.after(decision), asked)
    return _result(job, facts.after(decision), decision, sentence, repeated=False)


def _facts(proposal: Proposal, asked: Asked) -> Facts:
    """The facts; where the policy adds up, read once more behind the lock of its sums."""
    facts = facts_of(proposal)
    if asked.verdict is Verdict.APPROVE and any(rules.sums for rules in facts.rulesets):
        sums.lock_sums(proposal.policy.name)
        facts = facts_of(proposal)
    return facts


def _manager(person_id: int) -> Actor:
    try:
        return authority.require(person_id, Role.MANAGER)
    except NotPermitted as refused:
        raise NotAnApprover("Only a manager of this organisation may decide this.") from refused


def _repeat(job: Job, facts: Facts, own: Decision, asked: Asked) -> DecisionResult:
    at = clock(own.decided_at, own.tenant_id)
    if own.verdict != asked.verdict or own.digest != asked.digest:
        raise AlreadyDecided(f"You {DID[own.verdict]} already at {at}. That stands.")
    return _result(job, facts, own, f"You {DID[own.verdict]} already at {at}.", repeated=True)


def _check(job: Job, facts: Facts, person_id: int, asked: Asked) -> Way:
    proposal = facts.proposal
    signed_and_sent = proposal.closing == Closing.SENT and proposal.approved_at is not None
    if proposal.closed_at is not None and not signed_and_sent:
        raise ProposalClosed(how_it_closed(proposal) + _newer(proposal))
    if proposal.approved_at is not None:
        raise ProposalClosed(_who_approved(facts))
    if is_stale(asked, proposal):
        raise StaleProposal("The proposal has changed since this page was opened. Look at it again.")
    if has_expired(proposal.expires_at, asked.source.now, database_clock()):
        at = clock(proposal.expires_at, proposal.tenant_id)
        raise Expired(f"This proposal expired at {at}. Nothing was decided; it can be proposed again.")
    if job.held_at is not None:
        raise HeldOrCancelRequested(
            f"{job.held_by} holds {job.label}: {job.hold_reason} Nothing was decided."
        )
    if job.cancel_requested_at is not None:
        raise HeldOrCancelRequested(
            f"{job.cancel_requested_by} asked to cancel {job.label}. Nothing was decided."
        )
    if job.state != JobState.AWAITING_APPROVAL:
        raise ProposalClosed(f"{job.label} is {named(job.state)} and awaits no approval.")
    if asked.source.door == "bulk" and not facts.bulk:
        raise NotInBulk(f"The policy {proposal.policy.name} wants this decided by itself, not in bulk.")
    way = facts.way(person_id, asked.verdict)
    if not isinstance(way, Way):
        raise way
    if asked.verdict is Verdict.APPROVE:
        _know_of_twins(proposal, asked)
    return way


def _know_of_twins(proposal: Proposal, asked: Asked) -> None:
    twins = twins_of(proposal)
    if twins and twins[0].proposal_id > asked.knows_of:
        raise SameAgain(
            f"{twins[0].proposal_label} of {twins[0].job_label} asks for the same and {twins[0].word}: approving this may do it"
            " twice. Look at both, and say on this one's page that it shall be done again. Nothing was decided."
        )


def _entered(facts: Facts, person_id: int, asked: Asked) -> datetime | None:
    """When the password was entered again. Raises PasswordNeeded where the policy asks for it and it was not."""
    if asked.verdict is not Verdict.APPROVE or not facts.needs_reentry:
        return None
    entered = reentry.entered_at(person_id, asked.source.session, asked.source.now)
    if entered is None:
        raise PasswordNeeded("The policy asks for your password again before this is approved.")
    return entered


def _newer(proposal: Proposal) -> str:
    newer = Proposal.objects.filter(
        job_id=proposal.job_id, number__gt=proposal.number, closed_at__isnull=True
    )
    found = newer.first()
    return "" if found is None else f" The proposal has changed: {found.label} waits instead."


def _who_approved(facts: Facts) -> str:
    signed = [f"{d.person_name} at {clock(d.decided_at, d.tenant_id)}" for d in facts.approvals]
    who = " and ".join(signed) or "the policy"
    return f"This was approved already by {who}. Your decision was not needed and is not counted."


def _insert(facts: Facts, way: Way, asked: Asked, entered: datetime | None) -> Decision:
    seats = facts.standing.open
    return insert(
        Decision(
            tenant_id=facts.proposal.tenant_id,
            proposal=facts.proposal,
            person_id=way.person.person_id,
            person_name=way.person.handle,
            on_behalf_of_id=way.giver.person_id if way.giver else None,
            delegation_id=way.lent.delegation_id if way.lent else None,
            level=seats.number if seats else 0,
            verdict=asked.verdict.value,
            digest=asked.digest,
            reason=asked.reason,
            fields="\n".join(asked.fields),
            authenticated_by=asked.source.authenticated_by,
            authenticated_at=entered,
            door=asked.source.door,
            decided_at=asked.source.now,
        )
    )


def _approve(
    job: Job, proposal: Proposal, decision: Decision, actor: Actor, facts: Facts, asked: Asked
) -> str:
    quorum = facts.quorum
    told = _evidence(proposal, decision) | ({"knows_of": asked.knows_of} if asked.knows_of else {})
    if facts.missing:
        evidence = {**told, "approvals": len(facts.valid), "quorum": quorum}
        journal.record(job=job, event="decision.recorded", actor=actor, evidence=evidence)
        seats = facts.standing.open
        # Today's levels have no number: whether it is another one, the notification's key tells.
        opened = seats is not None and (not seats.number or seats.number != decision.level)
        note_approvers(job, proposal, facts, opened=opened)
        needed = count(facts.missing, "more approver", "more approvers")
        whose = f", of {seats.name}" if seats and len(facts.frozen.levels) > 1 else ""
        return f"Your approval is recorded. It needs {needed}{whose}."
    Proposal.objects.filter(pk=proposal.pk).update(approved_at=decision.decided_at, blocked_at=None)
    proposal.approved_at, proposal.blocked_at = decision.decided_at, None
    if any(rules.sums for rules in facts.rulesets):
        sums.reserve(proposal, facts.amounts, facts.taken.day, decision.decided_at)
    signed = [{"decision": d.pk, "by": d.person_name, "digest": d.digest} for d in facts.valid]
    journal.transition(
        job=job,
        to=JobState.READY_TO_COMMIT,
        event="proposal.approved",
        actor=actor,
        evidence={**told, "decisions": signed, "quorum": quorum},
    )
    return "Approved. It is checked again and then sent."


def _reject(job: Job, proposal: Proposal, decision: Decision, actor: Actor, now: datetime) -> str:
    close(proposal, Closing.REJECTED, decision.reason, now)
    items.cancel_open(job=job)
    evidence = {**_evidence(proposal, decision), "reason": decision.reason}
    journal.transition(
        job=job, to=JobState.CANCELLED, event="proposal.rejected", actor=actor, evidence=evidence
    )
    return f"Rejected. {job.label} is cancelled and nothing was sent."


def _request_changes(job: Job, proposal: Proposal, decision: Decision, actor: Actor, asked: Asked) -> str:
    close(proposal, Closing.CHANGES_REQUESTED, decision.reason, asked.source.now)
    evidence = {
        **_evidence(proposal, decision),
        "reason": decision.reason,
        "fields": list(asked.fields),
    }
    journal.transition(
        job=job, to=JobState.VALIDATED, event="changes.requested", actor=actor, evidence=evidence
    )
    return "Changes are requested. Nothing was sent."


def _evidence(proposal: Proposal, decision: Decision) -> dict[str, object]:
    return {
        "proposal": proposal.pk,
        "number": proposal.number,
        "digest": decision.digest,
        "decision": decision.pk,
        "verdict": decision.verdict,
        "level": decision.level,
        "door": decision.door,
        **(
            {"delegation": decision.delegation_id, "on_behalf_of": decision.on_behalf_of_id}
            if decision.delegation_id
            else {}
        ),
    }


def _result(job: Job, facts: Facts, decision: Decision, sentence: str, *, repeated: bool) -> DecisionResult:
    return DecisionResult(
        decision_id=decision.pk,
        proposal_id=facts.proposal.pk,
        job_id=job.pk,
        verdict=Verdict(decision.verdict),
        decided_at=decision.decided_at,
        repeated=repeated,
        approvals=len(facts.valid),
        quorum=facts.quorum,
        closing=facts.proposal.closing,
        job_state=job.state,
        sentence=sentence,
    )
