"""What the room does when a job ends, and what it says about why a job waits."""

from __future__ import annotations

import json
from datetime import datetime

from access.roles import WORKER
from approvals.closing import close
from approvals.facts import facts_of
from approvals.locks import lock_open_proposal
from approvals.models import Closing, Decision, Proposal
from approvals.sums import release_where_nothing_stands, take_again
from approvals.wording import clock, count, until
from workflows import journal
from workflows.hooks import Happened
from workflows.models import Job, JournalEntry
from workflows.states import JobState


def void_open_proposal(happened: Happened) -> None:
    """A job that ends takes its open proposal with it. Locks the proposal; the job is locked."""
    proposal = lock_open_proposal(happened.job)
    if proposal is None:
        return
    close(proposal, Closing.VOIDED, f"The job is {happened.to_state.lower()}.", happened.at)
    evidence = {"proposal": proposal.pk, "number": proposal.number, "because": happened.event}
    journal.record(job=happened.job, event="proposal.cancelled", actor=WORKER, evidence=evidence)


def give_back(happened: Happened) -> None:
    """A job that ends takes nothing of its policy's sums, unless something that it did stands."""
    release_where_nothing_stands(happened.job, happened.at)


def applied_after_all(happened: Happened) -> None:
    """outcome.contradicted: what had ended without effect was done, so that it counts in its policy's sums again."""
    if happened.evidence.get("finding") in ("applied", "differs"):
        take_again(int(happened.evidence["proposal"]), happened.at)


def may_be_applied_after_all(happened: Happened) -> None:
    """operation.reopened: until it is known that nothing was done, it counts in its policy's sums again."""
    take_again(int(happened.evidence["proposal"]), happened.at)


def why_it_waits(job: Job) -> str | None:
    """One sentence where this room knows why: a decision is missing, or the job was sent back."""
    if job.state == JobState.AWAITING_APPROVAL:
        return _awaits(job)
    if job.state == JobState.VALIDATED:
        return _sent_back(job)
    return None


def _awaits(job: Job) -> str | None:
    proposal = (
        Proposal.objects.filter(job=job, closed_at__isnull=True).select_related("policy", "job").first()
    )
    if proposal is None:
        return None
    facts = facts_of(proposal)
    if facts.blocked:
        return "blocked: too few people may approve this"
    time = until(proposal.expires_at, proposal.tenant_id)
    missing = max(facts.missing, 1)
    if facts.valid:
        return f"needs {count(missing, 'more approver', 'more approvers')} until {time}"
    return f"waits for {'a manager' if missing == 1 else f'{missing} managers'} until {time}"


def _runs_again(job: Job, closed_at: datetime) -> bool:
    """Whether steps were run again since a proposal was closed: then it is they that the job waits for."""
    if not job.reruns:
        return False
    return JournalEntry.objects.filter(job=job, event="steps.run_again", at__gte=closed_at).exists()


def _sent_back(job: Job) -> str | None:
    last = Proposal.objects.filter(job=job).order_by("-number").first()
    refused = JournalEntry.objects.filter(job=job, event="proposal.refused").order_by("-sequence").first()
    if refused is not None and (last is None or refused.at > (last.closed_at or last.frozen_at)):
        return f"no proposal could be made: {json.loads(refused.evidence)['why']}"
    if last is None or last.closed_at is None or _runs_again(job, last.closed_at):
        return None
    at = clock(last.closed_at, last.tenant_id)
    if last.closing == Closing.CHANGES_REQUESTED:
        by = Decision.objects.filter(proposal=last).order_by("-decided_at", "-pk").first()
        return f"changes were requested{f' by {by.person_name}' if by else ''}: {last.closing_reason}"
    if last.closing == Closing.EXPIRED:
        return f"the proposal expired on {at} and has to be proposed again"
    if last.closing == Closing.WITHDRAWN:
        return f"the proposal was withdrawn on {at} and has to be proposed again"
    return f"the proposal no longer holds: {last.closing_reason}" if last.closing == Closing.VOIDED else None
