"""The only place that locks rows of this room. Order: job (workflows.locks) → work items → proposal → operation."""

from __future__ import annotations

from datetime import datetime

from django.db import connection

from access.refusals import NotFound
from approvals.models import Proposal
from workflows.locks import lock_items, lock_job
from workflows.models import Job, WorkItem
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES


class NoSuchProposal(NotFound):
    """There is no such proposal in this tenant."""


def job_of(proposal_id: int) -> int:
    """The job of a proposal, read without a lock: it never changes. Raises NoSuchProposal."""
    job_id = Proposal.objects.filter(pk=proposal_id).values_list("job_id", flat=True).first()
    if job_id is None:
        raise NoSuchProposal(f"There is no proposal {proposal_id} here.")
    return int(job_id)


def lock_open_items(job: Job) -> None:
    """A locked job's open or stuck items, before its proposal: for a rejection, which cancels them afterwards."""
    numbers = [s.number for s in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)]
    lock_items(list(WorkItem.objects.filter(job=job, state__in=numbers).values_list("pk", flat=True)))


def lock_proposal(proposal_id: int) -> Proposal:
    """The proposal's row, fresh and locked (NO KEY UPDATE). The caller holds its job's lock."""
    query = Proposal.objects.select_for_update(no_key=True, of=("self",)).select_related("policy", "job")
    proposal = query.filter(pk=proposal_id).first()
    if proposal is None:
        raise NoSuchProposal(f"There is no proposal {proposal_id} here.")
    return proposal


def lock_job_and_proposal(proposal_id: int) -> tuple[Job, Proposal]:
    """Both, in the global order. Raises NoSuchProposal."""
    job = lock_job(job_of(proposal_id))
    return job, lock_proposal(proposal_id)


def lock_open_proposal(job: Job) -> Proposal | None:
    """The open proposal of a locked job, or None."""
    proposal_id = (
        Proposal.objects.filter(job=job, closed_at__isnull=True).values_list("pk", flat=True).first()
    )
    return None if proposal_id is None else lock_proposal(proposal_id)


def database_clock() -> datetime:
    """The database's time at this moment, not at the transaction's start."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        at: datetime = cursor.fetchone()[0]
    return at
