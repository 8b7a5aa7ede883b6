"""Who is told outside of what happens to a proposal. Runs after the journal's row, in its transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from access.statements import Values
from approvals.models import Proposal
from approvals.rules import Facts
from approvals.wording import until
from outbox import events
from outbox.writing import Notice, write
from workflows.hooks import Happened
from workflows.models import Job, JournalEntry
from workflows.states import JobState

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


def who_could_sign(facts: Facts) -> list[int]:
    """Who could sign the open level now and is at work, with their own authority or with what was lent to them."""
    members = facts.directory.members
    signed = {d.person_id for d in facts.live}
    return sorted(p for p in facts.able - signed if not members[p].away)


def asked(job: Job, proposal: Proposal, facts: Facts, now: datetime, but_not: Collection[int] = ()) -> None:
    """Whoever could sign the level that is open now is told that it waits for them: each once a level.

    Where an approval that was complete has gone back to its approvers they are told anew. `but_not`: who is told of it
    in other words at this moment.
    """
    seats = facts.standing.open
    if seats is None:
        return
    named = seats.level.name or (seats.number and len(facts.frozen.levels) > 1)
    title = f"Proposal {proposal.label} of {job.label} waits for a decision"
    title = f"{title} of {seats.name}" if named else title
    key = f"{_since(job)}/{_level(facts)}"
    people = set(who_could_sign(facts)) - set(but_not) if settings.EMAIL_HOST else ()
    write(_about(job, proposal, "approval.asked", key, title), people=people, now=now)


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


def _since(job: Job) -> int:
    """The journal's number of the entry since which the job awaits its approval."""
    ((sequence,),) = _ASKED.all(job.pk)
    return int(sequence)


def _level(facts: Facts) -> str:
    """What makes a level the same: its place in the frozen policy, or in today's where that asks for more."""
    standing = facts.standing
    if standing.frozen:
        return str(standing.frozen[0].number)
    return f"today-{len(facts.current.levels) - len(standing.current) + 1}"


def _about(job: Job, proposal: Proposal, event: str, sequence: int | str, title: str) -> Notice:
    return Notice(
        event=event,
        key=f"{event}/{job.pk}/{sequence}",
        title=title,
        page="approval",
        page_args=(proposal.pk,),
        subject={"job": job.pk, "proposal": proposal.pk},
    )


def _entries(job: Any) -> QuerySet[JournalEntry, tuple[Any, ...]]:
    rows = JournalEntry.objects.filter(job=job, to_state=JobState.AWAITING_APPROVAL.value)
    return rows.order_by("-sequence").values_list("sequence")[:1]


_ASKED = Values(_entries)
