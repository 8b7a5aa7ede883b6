"""Expiry: time closes a proposal that is still open and unsent. Nothing was decided by it, least of all a yes."""

from __future__ import annotations

from datetime import datetime

from access.roles import Actor, ActorKind
from access.tenancy import acting
from approvals import document
from approvals.closing import close
from approvals.locks import NoSuchProposal, database_clock, lock_proposal
from approvals.models import Closing, Proposal
from workflows import journal
from workflows.locks import lock_job
from workflows.machines import Claim, Done, Wait
from workflows.models import Job
from workflows.states import JobState

UNSENT = (JobState.AWAITING_APPROVAL, JobState.READY_TO_COMMIT)


def expire(claim: Claim) -> Done | Wait:
    """The machine "approvals.expire": `claim.key` is the proposal's id. Safe to run at any time, any number of times.

    Locks job → proposal. A send does not depend on this having run: decisions and dispatch look at the expiry too.
    """
    with acting(claim.tenant_id):
        job = lock_job(claim.job_id)
        try:
            proposal = lock_proposal(int(claim.key))
        except NoSuchProposal:
            return Done()
        if proposal.closed_at is not None or job.state not in UNSENT:
            return Done()
        now = database_clock()
        if now < proposal.expires_at:
            return Wait(at=proposal.expires_at)
        expire_proposal(job, proposal, Actor(kind=ActorKind.WORKER, name=claim.worker_name), now)
    return Done()


def expire_proposal(job: Job, proposal: Proposal, actor: Actor, now: datetime) -> None:
    """Close an open proposal as expired and send its job back to VALIDATED. Job and proposal are locked."""
    why = "It was approved, but not sent in time." if proposal.approved_at else "Nobody decided in time."
    close(proposal, Closing.EXPIRED, why, now)
    journal.transition(
        job=job,
        to=JobState.VALIDATED,
        event="proposal.expired",
        actor=actor,
        evidence={
            "proposal": proposal.pk,
            "number": proposal.number,
            "digest": proposal.digest,
            "expires_at": document.stamp(proposal.expires_at),
            "approved": proposal.approved_at is not None,
        },
    )
