"""Who is told outside of what happens to a proposal. Runs after the journal's row, in its transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from django.conf import settings

from access.roles import Role
from approvals.models import Proposal
from approvals.wording import until
from outbox import events
from outbox.writing import Notice, write
from workflows.hooks import Happened
from workflows.models import Job

DECIDED = {
    "proposal.approved": ("was approved", "a proposal has all its approvals"),
    "proposal.rejected": ("was rejected", "a proposal was rejected, and its job cancelled"),
    "changes.requested": ("was sent back with changes to make", "a manager asked for changes"),
    "proposal.expired": ("expired", "a proposal was not decided, or not sent, in time"),
}
"""What a proposal came to: as its initiator is told, and as an endpoint's owner chooses it."""


def declare() -> None:
    """Make the events known that endpoints can choose."""
    events.declare("approval.asked", "a proposal waits for a decision")
    events.declare("approval.reminded", "people were reminded of a proposal that still waits")
    events.declare("approval.escalated", "a proposal still waits, and somebody more was told")
    for event, (_, meaning) in DECIDED.items():
        events.declare(event, meaning)


def asked(happened: Happened) -> None:
    """Managers are told that a proposal waits, but not who started its job."""
    proposal = _newest(happened)
    if proposal is None:
        return
    title = f"Proposal {proposal.label} of {happened.job.label} waits for a decision"
    notice = _notice(happened, proposal, title)
    write(notice, roles=[Role.MANAGER], but_not=[proposal.initiator_id], now=happened.at)


def decided(happened: Happened) -> None:
    """Whoever started the job is told what became of its proposal."""
    proposal = _newest(happened)
    if proposal is None:
        return
    word, _ = DECIDED[happened.event]
    notice = _notice(happened, proposal, f"Proposal {proposal.label} of {happened.job.label} {word}")
    write(notice, people=[proposal.initiator_id], now=happened.at)


def by_mail(people: Sequence[int]) -> int:
    """How many of them get an e-mail: none where the installation has no mail server."""
    return len(people) if settings.EMAIL_HOST else 0


def reminded(job: Job, proposal: Proposal, people: Sequence[int], sequence: int, now: datetime) -> None:
    """These people are told that it still waits for them; after the journal's row, in its transaction."""
    title = f"№ {proposal.label} of {job.label} still waits for a decision, until {_until(proposal)}"
    write(_about(job, proposal, "approval.reminded", sequence, title), people=people, now=now)


def escalated(
    job: Job, proposal: Proposal, people: Sequence[int], sequence: int, now: datetime, *, may_decide: bool
) -> None:
    """Whoever a step goes to is told, and whether they may sign from now on."""
    title = f"№ {proposal.label} of {job.label} is not decided yet, and expires {_until(proposal)}"
    if may_decide:
        title = f"{title}: you may sign it now"
    write(_about(job, proposal, "approval.escalated", sequence, title), people=people, now=now)


def _until(proposal: Proposal) -> str:
    return until(proposal.expires_at, proposal.tenant_id)


def _newest(happened: Happened) -> Proposal | None:
    """The proposal that it is about: a job has one open at a time, its newest."""
    return Proposal.objects.filter(job=happened.job).order_by("-number").first()


def _notice(happened: Happened, proposal: Proposal, title: str) -> Notice:
    return _about(happened.job, proposal, happened.event, happened.sequence, title)


def _about(job: Job, proposal: Proposal, event: str, sequence: int, title: str) -> Notice:
    return Notice(
        event=event,
        key=f"{event}/{job.pk}/{sequence}",
        title=title,
        page="approval",
        page_args=(proposal.pk,),
        subject={"job": job.pk, "proposal": proposal.pk},
    )
