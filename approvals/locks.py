"""The only place that locks rows of this room. Order: job (workflows.locks) → work items → proposal → operation."""

from __future__ import annotations

from datetime import datetime

from access.refusals import NotFound
from access.statements import Asked, Select, Values, execute
from approvals.models import LookAgain, Proposal, Selection
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
    proposal = _PROPOSAL.first(proposal_id)
    if proposal is None:
        raise NoSuchProposal(f"There is no proposal {proposal_id} here.")
    return proposal


def lock_job_and_proposal(proposal_id: int) -> tuple[Job, Proposal]:
    """Both, in the global order. Raises NoSuchProposal."""
    job = lock_job(job_of(proposal_id))
    return job, lock_proposal(proposal_id)


def lock_selection(selection_id: int) -> Selection | None:
    """A selection's row, fresh and locked; nothing else is locked with it."""
    return Selection.objects.select_for_update(no_key=True).filter(pk=selection_id).first()


def lock_open_proposal(job: Job) -> Proposal | None:
    """The open proposal of a locked job, or None."""
    found = _OPEN.first(job.pk)
    return None if found is None else lock_proposal(found[0])


def lock_look(look_id: int) -> LookAgain | None:
    """A walk's row, locked; None where it is over, or another worker has it. Nothing is locked before or after it."""
    query = LookAgain.objects.select_for_update(no_key=True, skip_locked=True, of=("self",))
    return query.filter(pk=look_id).first()


def database_clock() -> datetime:
    """The database's time at this moment, not at the transaction's start."""
    at: datetime = execute(*CLOCK).fetchone()[0]
    return at


CLOCK: Asked = ("SELECT clock_timestamp()", [])
"""What `database_clock` asks, to be asked `ahead`."""
_PROPOSAL = Select(
    lambda proposal: (
        Proposal.objects.select_for_update(no_key=True, of=("self",))
        .select_related("policy", "job")
        .filter(pk=proposal)
    )
)
_OPEN = Values(
    lambda job: Proposal.objects.filter(job=job, closed_at__isnull=True).order_by("pk").values_list("pk")[:1]
)
