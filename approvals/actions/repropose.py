"""Asking again: the saved draft is frozen anew, with new keys and a new number. No step runs again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict
from access.roles import Role
from access.tenancy import acting
from approvals.freezing import freeze, proposed_draft
from approvals.models import Proposal
from web.vocabulary import named
from workflows import journal, registry
from workflows.locks import lock_job
from workflows.models import Job, JournalEntry
from workflows.states import JobState


class NothingToRepropose(Conflict):
    """The job does not wait in VALIDATED with a draft; the message says where it stands."""


@dataclass(frozen=True, slots=True)
class Reproposed:
    """The new proposal, or (without one) the sentence that says why the draft could not be frozen."""

    job_id: int
    job_state: str
    proposal_id: int | None
    refused: str


def repropose_job(*, tenant_id: int, job_id: int, person_id: int, now: datetime) -> Reproposed:
    """Propose a job's saved draft again after an expiry, a change request, a withdrawal or a voiding.

    An operator may, and the submitter of the job. Locks job, then inserts. A repeat is NothingToRepropose, since the
    job has moved on. Raises NoSuchJob, NotPermitted.
    """
    with acting(tenant_id):
        job = lock_job(job_id)
        own = [Role.SUBMITTER] if job.submitted_by_id == person_id else []
        actor = authority.require(person_id, Role.OPERATOR, *own)
        if job.state != JobState.VALIDATED:
            raise NothingToRepropose(f"{job.label} is {named(job.state)}; there is nothing to propose again.")
        saved = proposed_draft(job)
        if saved is None:
            raise NothingToRepropose(f"{job.label} has not come to a proposal yet.")
        text, digest = saved
        earlier = Proposal.objects.filter(job=job).order_by("-number").first()
        evidence = {"draft": digest, "earlier": None if earlier is None else earlier.number}
        journal.record(job=job, event="proposal.again_asked", actor=actor, evidence=evidence)
        try:
            freeze(job, text, now)
        except registry.RevisionMissing as missing:
            raise NothingToRepropose(
                f"{missing} Deploy it to propose again, or migrate the job."
            ) from missing
        made = Proposal.objects.filter(job=job, closed_at__isnull=True).first()
        refused = "" if made is not None else _why_refused(job)
        return Reproposed(job.pk, job.state, None if made is None else made.pk, refused)


def _why_refused(job: Job) -> str:
    last = JournalEntry.objects.filter(job=job, event="proposal.refused").order_by("-sequence").first()
    return "" if last is None else str(json.loads(last.evidence)["why"])
