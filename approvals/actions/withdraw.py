"""Taking something back before anything is sent: a submitter the proposal, a manager the own approval."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict, NotPermitted
from access.roles import Role
from access.tenancy import acting
from approvals import schedule
from approvals.actions.refusing import keeps_refusals
from approvals.closing import close, how_it_closed, reopen_to_decisions, void
from approvals.facts import facts_of
from approvals.locks import lock_job_and_proposal
from approvals.missing import note_approvers
from approvals.models import Closing, Proposal
from approvals.reasons import LONGEST_SHORT, check_reason
from web.vocabulary import named
from workflows import journal
from workflows.states import JobState

REFUSED_EVENT = "withdrawal.refused"


class NotYours(NotPermitted):
    """Only who started the job withdraws its proposal."""


class TooLateToWithdraw(Conflict):
    """The proposal is closed, approved or on its way; the message says which."""


class NothingToWithdraw(Conflict):
    """The person has no approval on this proposal that counts."""


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """Where the job stands now."""

    job_id: int
    proposal_id: int
    job_state: str


def withdraw_proposal(
    *, tenant_id: int, proposal_id: int, person_id: int, now: datetime, reason: str = ""
) -> Withdrawn:
    """The submitter of a job takes its proposal back: AWAITING_APPROVAL → VALIDATED. Nothing was sent.

    Locks job → proposal. A repeat is TooLateToWithdraw. Raises NoSuchProposal, ReasonMissing (one that cannot be kept),
    NotPermitted, NotYours.
    """
    check_reason(reason, longest=LONGEST_SHORT)
    with (
        keeps_refusals(tenant_id, proposal_id, person_id, "withdraw proposal", now, event=REFUSED_EVENT),
        acting(tenant_id),
    ):
        job, proposal = lock_job_and_proposal(proposal_id)
        if job.submitted_by_id != person_id:
            raise NotYours("Only the person who started this job may withdraw its proposal.")
        actor = authority.require(person_id, Role.SUBMITTER)
        _still_open(proposal)
        if job.state != JobState.AWAITING_APPROVAL:
            raise TooLateToWithdraw(f"{proposal.label} is approved already. An admin can cancel {job.label}.")
        close(proposal, Closing.WITHDRAWN, reason, now)
        evidence = {"proposal": proposal.pk, "number": proposal.number, "reason": reason}
        journal.transition(
            job=job, to=JobState.VALIDATED, event="proposal.withdrawn", actor=actor, evidence=evidence
        )
        return Withdrawn(job.pk, proposal.pk, job.state)


def withdraw_approval(
    *, tenant_id: int, proposal_id: int, person_id: int, now: datetime, reason: str = ""
) -> Withdrawn:
    """A manager takes the own approval back before anything is sent; the decision stays, marked void.

    Locks job → proposal. READY_TO_COMMIT → AWAITING_APPROVAL where the quorum was complete. The person may decide
    anew. A repeat is NothingToWithdraw. Raises NoSuchProposal, ReasonMissing (one that cannot be kept), NotPermitted,
    TooLateToWithdraw.
    """
    check_reason(reason, longest=LONGEST_SHORT)
    with (
        keeps_refusals(tenant_id, proposal_id, person_id, "withdraw approval", now, event=REFUSED_EVENT),
        acting(tenant_id),
    ):
        job, proposal = lock_job_and_proposal(proposal_id)
        actor = authority.require(person_id, Role.MANAGER)
        _still_open(proposal)
        own = [d for d in facts_of(proposal).approvals if d.person_id == person_id]
        if not own:
            raise NothingToWithdraw("You have no approval on this proposal that counts.")
        if job.state not in (JobState.AWAITING_APPROVAL, JobState.READY_TO_COMMIT):
            raise TooLateToWithdraw(f"{job.label} is {named(job.state)}; the approval has been used.")
        void(own, reason or "withdrawn", actor.name, now)
        evidence = {"proposal": proposal.pk, "decisions": [d.pk for d in own], "reason": reason}
        if job.state == JobState.READY_TO_COMMIT:
            journal.transition(
                job=job,
                to=JobState.AWAITING_APPROVAL,
                event="approval.withdrawn",
                actor=actor,
                evidence=evidence,
            )
            reopen_to_decisions(proposal)
            schedule.ring(job, proposal, now=True)
        else:
            journal.record(job=job, event="approval.withdrawn", actor=actor, evidence=evidence)
        note_approvers(job, proposal, opened=True)
        return Withdrawn(job.pk, proposal.pk, job.state)


def _still_open(proposal: Proposal) -> None:
    if proposal.closed_at is not None:
        raise TooLateToWithdraw(how_it_closed(proposal))
