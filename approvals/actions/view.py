"""Journalling that somebody who may decide has seen a proposal in full."""

from __future__ import annotations

import json

from access import authority
from access.roles import Actor, ActorKind, Role
from access.tenancy import acting
from approvals.locks import job_of, lock_job_and_proposal
from workflows import journal
from workflows.models import JournalEntry

EVENT = "proposal.viewed"


def record_view(*, tenant_id: int, proposal_id: int, person_id: int) -> bool:
    """Journal that a manager opened this proposal; True the first time. Others' looking is not journalled.

    Locks job → proposal, so that two tabs leave one entry. Raises NoSuchProposal.
    """
    with acting(tenant_id):
        if Role.MANAGER not in authority.roles_of(person_id):
            return False
        # Looked at before the lock too: who opens it again should not wait for somebody who is deciding it.
        if _has_viewed(job_of(proposal_id), proposal_id, person_id):
            return False
        job, proposal = lock_job_and_proposal(proposal_id)
        if _has_viewed(job.pk, proposal.pk, person_id):
            return False
        required = authority.require(person_id, Role.MANAGER)
        actor = Actor(kind=ActorKind.MANAGER, name=required.name, person_id=person_id)
        evidence = {"proposal": proposal.pk, "number": proposal.number, "digest": proposal.digest}
        journal.record(job=job, event=EVENT, actor=actor, evidence=evidence)
        return True


def _has_viewed(job_id: int, proposal_id: int, person_id: int) -> bool:
    seen = JournalEntry.objects.filter(job=job_id, event=EVENT, actor_id=person_id)
    return any(
        json.loads(text)["proposal"] == proposal_id for text in seen.values_list("evidence", flat=True)
    )
