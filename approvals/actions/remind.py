"""Whoever started a job has the people reminded who could sign its proposal: once an hour, and no decision by it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from access import authority
from access.refusals import Conflict, NotPermitted
from access.roles import Role
from access.tenancy import acting
from approvals import notifying
from approvals.actions.refusing import keeps_refusals
from approvals.facts import facts_of
from approvals.locks import database_clock, lock_job_and_proposal
from approvals.models import Proposal, Reminded
from approvals.wording import clock, count
from workflows import journal
from workflows.models import Job
from workflows.states import JobState

EVERY = timedelta(hours=1)
REFUSED_EVENT = "reminder.refused"


class NotYourJob(NotPermitted):
    """Only who started the job has its approvers reminded."""


class NothingToRemindOf(Conflict):
    """The proposal does not wait for a decision, or nobody could sign it now; the message says which."""


class RemindedLately(Conflict):
    """Somebody was reminded less than an hour ago; the message says when it is possible again."""


@dataclass(frozen=True, slots=True)
class RemindedNow:
    """How many people could sign, how many of them get an e-mail, and what to say."""

    proposal_id: int
    people: int
    told: int
    sentence: str


def remind(*, tenant_id: int, proposal_id: int, person_id: int, now: datetime) -> RemindedNow:
    """Remind everybody who could sign an own job's proposal now and is at work. Locks job → proposal.

    A repeat within the hour is RemindedLately. Raises NoSuchProposal, NotPermitted, NotYourJob, NothingToRemindOf; each
    refusal is kept as a row and in the journal.
    """
    with (
        keeps_refusals(tenant_id, proposal_id, person_id, "remind", now, event=REFUSED_EVENT),
        acting(tenant_id),
    ):
        job, proposal = lock_job_and_proposal(proposal_id)
        if job.submitted_by_id != person_id:
            raise NotYourJob("Only the person who started this job has its approvers reminded.")
        actor = authority.require(person_id, Role.SUBMITTER, Role.OPERATOR, Role.ADMIN, Role.MANAGER)
        at = database_clock()
        _check(job, proposal, at)
        people = notifying.who_could_sign(facts_of(proposal))
        if not people:
            raise NothingToRemindOf("Nobody at work could sign it now. An admin has a case about it.")
        told = notifying.by_mail(people)
        Reminded.objects.create(
            tenant_id=proposal.tenant_id, proposal=proposal, by_id=person_id, told=told, at=at
        )
        sequence = journal.record(
            job=job, event="approval.reminded", actor=actor, evidence={"proposal": proposal.pk, "told": told}
        )
        notifying.reminded(job, proposal, people, sequence, at)
        return RemindedNow(proposal.pk, len(people), told, _sentence(len(people), told))


def again_from(proposal: Proposal) -> datetime | None:
    """When it was last asked for by a person, and an hour; None where nobody has."""
    asked = Reminded.objects.filter(proposal=proposal, step=0).order_by("-at")
    last = asked.values_list("at", flat=True).first()
    return None if last is None else last + EVERY


def _check(job: Job, proposal: Proposal, at: datetime) -> None:
    waits = proposal.closed_at is None and proposal.approved_at is None and at < proposal.expires_at
    if not waits or job.state != JobState.AWAITING_APPROVAL:
        raise NothingToRemindOf(f"№ {proposal.label} waits for no decision any more.")
    if job.held_at is not None:
        raise NothingToRemindOf(f"{job.held_by} holds {job.label}, so nobody can decide it now.")
    again = again_from(proposal)
    if again is not None and at < again:
        when = clock(again, proposal.tenant_id)
        raise RemindedLately(
            f"They were reminded less than an hour ago. You can remind them again from {when}."
        )


def _sentence(people: int, told: int) -> str:
    if not told:
        return f"Noted. No e-mail goes out here; {count(people, 'person', 'people')} could sign it."
    return f"Reminded {count(told, 'person', 'people')}."
