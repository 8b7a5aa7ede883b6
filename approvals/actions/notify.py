"""What happens to an undecided proposal at its moments: people are reminded, and it is escalated. Never a decision."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from access.roles import WORKER, Actor, ActorKind, Role
from access.tenancy import acting
from approvals import notifying
from approvals.facts import facts_of
from approvals.locks import NoSuchProposal, database_clock, lock_proposal
from approvals.missing import note_approvers
from approvals.models import Escalated, Moment, MomentKind, Proposal, Reminded
from approvals.rules import Facts
from approvals.ruleset import Escalation
from approvals.schedule import next_after, open_moments
from workflows import journal
from workflows.locks import lock_job
from workflows.machines import Claim, Done, Wait
from workflows.models import Job
from workflows.states import JobState


def notify(claim: Claim) -> Done | Wait:
    """The machine "approvals.notify": `claim.key` is the proposal's id. Safe to run at any time, any number of times.

    Locks job → proposal → (hooks) case. Does nothing about a proposal that is decided, closed or past its expiry. What
    is due is written, journalled and told in one transaction: it happened with all of that, or not at all.
    """
    with acting(claim.tenant_id):
        job = lock_job(claim.job_id)
        try:
            proposal = lock_proposal(int(claim.key))
        except NoSuchProposal:
            return Done()
        now = database_clock()
        if proposal.closed_at is not None or now >= proposal.expires_at:
            return Done()
        moments = open_moments(proposal)
        if job.state == JobState.AWAITING_APPROVAL and proposal.approved_at is None:
            actor = Actor(kind=ActorKind.WORKER, name=claim.worker_name or WORKER.name)
            _take_due(job, proposal, [m for m in moments if m.at <= now], actor, now)
        following = next_after(moments, now)
        return Done() if following is None else Wait(at=following)


def _take_due(job: Job, proposal: Proposal, due: Sequence[Moment], actor: Actor, now: datetime) -> None:
    for moment in due:
        if moment.kind == MomentKind.ESCALATION:
            _escalate(job, proposal, moment, actor, now)
    reminders = [m for m in due if m.kind == MomentKind.REMINDER]
    if reminders:
        _remind(job, proposal, reminders, actor, now)


def _remind(job: Job, proposal: Proposal, due: Sequence[Moment], actor: Actor, now: datetime) -> None:
    """Once, however many are due: after a pause of the workers nobody gets five of them."""
    people = notifying.who_could_sign(facts_of(proposal))
    *passed, last = due
    told = notifying.by_mail(people)
    Reminded.objects.bulk_create(
        Reminded(
            tenant_id=proposal.tenant_id, proposal=proposal, step=m.step, told=told if m is last else 0,
            passed=m is not last, at=now,
        )
        for m in due
    )  # fmt: skip
    evidence: dict[str, object] = {"proposal": proposal.pk, "step": last.step, "told": told}
    if passed:
        evidence["passed"] = [m.step for m in passed]
    sequence = journal.record(job=job, event="approval.reminded", actor=actor, evidence=evidence)
    notifying.reminded(job, proposal, people, sequence, now)


def _escalate(job: Job, proposal: Proposal, moment: Moment, actor: Actor, now: datetime) -> None:
    step = proposal.policy.ruleset.escalation[moment.step - 1]
    people = _belonging(step, facts_of(proposal))
    Escalated.objects.create(
        tenant_id=proposal.tenant_id,
        proposal=proposal,
        step=moment.step,
        to=step.to,
        person=step.person,
        group=step.group,
        role=step.role.value if step.role else "",
        may_decide=step.may_decide,
        at=now,
    )
    evidence = {
        "proposal": proposal.pk,
        "step": moment.step,
        "to": step.to,
        "may_decide": step.may_decide,
        "told": notifying.by_mail(people),
    }
    sequence = journal.record(job=job, event="approval.escalated", actor=actor, evidence=evidence)
    notifying.escalated(job, proposal, people, sequence, now, may_decide=step.may_decide)
    note_approvers(job, proposal, told=people if step.may_decide else ())


def _belonging(step: Escalation, facts: Facts) -> list[int]:
    """Who a step goes to: whoever is that person, or in that group or role, now."""
    members = facts.directory.members.values()
    if step.person:
        return [m.person_id for m in members if m.handle == step.person]
    if step.group:
        return sorted(m.person_id for m in members if step.group in m.groups)
    return sorted(m.person_id for m in members if Role(step.role or Role.MANAGER) in m.roles)
