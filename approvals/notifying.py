"""Who is told outside of what happens to a proposal. Runs after the journal's row, in its transaction."""

from __future__ import annotations

from access.roles import Role
from approvals.models import Proposal
from outbox import events
from outbox.writing import Notice, write
from workflows.hooks import Happened

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


def _newest(happened: Happened) -> Proposal | None:
    """The proposal that it is about: a job has one open at a time, its newest."""
    return Proposal.objects.filter(job=happened.job).order_by("-number").first()


def _notice(happened: Happened, proposal: Proposal, title: str) -> Notice:
    return Notice(
        event=happened.event,
        key=f"{happened.event}/{happened.job.pk}/{happened.sequence}",
        title=title,
        page="approval",
        page_args=(proposal.pk,),
        subject={"job": happened.job.pk, "proposal": proposal.pk},
    )
