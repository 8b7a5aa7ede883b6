"""Whether the people at work could complete an open proposal. While they could not it has a case, and never a yes.

`Proposal.blocked_at` keeps what was journalled last, so that each change is journalled once: `approver.missing`, then
`approver.found`. Asked whenever a proposal is asked, signed, or its signatures stop counting; what changes elsewhere
comes through `looking.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, time

from access.roles import WORKER
from access.tenancy import require_scope
from approvals import notifying
from approvals.facts import facts_of
from approvals.locks import database_clock
from approvals.models import LookAgain, Proposal
from approvals.objections import FourEyes, OverLimit
from approvals.rules import Facts, Way
from approvals.ruleset import wall_clock
from approvals.sums import tenant_zone
from approvals.wording import count
from workflows import journal
from workflows.models import Job
from workflows.states import JobState


def note_approvers(
    job: Job,
    proposal: Proposal,
    facts: Facts | None = None,
    *,
    opened: bool = False,
    told: Collection[int] = (),
) -> None:
    """Journal it where an open proposal has come to lack approvers, or lacks them no more. Job and proposal are locked.

    A proposal that is decided, closed or past its expiry lacks nobody. A repeat changes nothing. `facts`: those that
    the caller has read since it wrote. `opened`: a level may have opened, so that those who could sign it are asked; so
    they are where it lacks nobody any more. `told`: who has just been told, and is not asked as well.
    """
    now = database_clock()
    if not _awaits(job, proposal, now):
        return
    facts = facts or facts_of(proposal)
    if facts.blocked_by_sums:
        look_at_midnight(proposal.policy.name, now)
    found = not facts.blocked and proposal.blocked_at is not None
    if facts.blocked != (proposal.blocked_at is not None):
        _journal(job, proposal, facts, now)
    if opened or found:
        notifying.asked(job, proposal, facts, now, but_not=told)


def _journal(job: Job, proposal: Proposal, facts: Facts, now: datetime) -> None:
    proposal.blocked_at = now if facts.blocked else None
    Proposal.objects.filter(pk=proposal.pk).update(blocked_at=proposal.blocked_at)
    evidence: dict[str, object] = {"proposal": proposal.pk, "quorum": facts.quorum, "missing": facts.missing}
    if facts.blocked:
        evidence["why"] = why_blocked(facts)
    event = "approver.missing" if facts.blocked else "approver.found"
    journal.record(job=job, event=event, actor=WORKER, evidence=evidence)


def why_blocked(facts: Facts) -> str:
    """What keeps the people of the organisation from completing it, without naming anybody."""
    seats = facts.standing.open
    whose = f" of {seats.name}" if seats is not None and len(facts.frozen.levels) > 1 else ""
    needs = f"It needs {count(facts.missing, 'more signature', 'more signatures')}{whose}"
    if facts.blocked_by_sums:
        return f"{needs}, and what the policy allows in sum is used up for now."
    if not facts.managers:
        return f"{needs}, and nobody is a manager here."
    kept = [f"{number} {why}" for why, number in _reasons(facts).items() if number]
    among = f": {', '.join(kept)}" if kept else ""
    return f"{needs}, more than {count(len(facts.managers), 'manager', 'managers')} can give{among}."


def _reasons(facts: Facts) -> dict[str, int]:
    """Of the managers, how many are kept from signing by what."""
    signed = {d.person_id for d in facts.live}
    found = dict.fromkeys(("signed", "away", "had a hand in the job", "may not approve this much"), 0)
    for person_id in facts.managers:
        member = facts.directory.members[person_id]
        excluded = facts.excluded(Way(member))
        if person_id in signed:
            found["signed"] += 1
        elif member.away:
            found["away"] += 1
        elif isinstance(excluded, FourEyes):
            found["had a hand in the job"] += 1
        elif isinstance(excluded, OverLimit):
            found["may not approve this much"] += 1
    return found


def _awaits(job: Job, proposal: Proposal, now: datetime) -> bool:
    undecided = proposal.closed_at is None and proposal.approved_at is None
    return undecided and job.state == JobState.AWAITING_APPROVAL and now < proposal.expires_at


def look_at_midnight(policy: str, now: datetime) -> None:
    """Have the policy's proposals looked at when the tenant's next day begins: sums have room by the day."""
    at = wall_clock(now, 1, time(0), tenant_zone())
    if not LookAgain.objects.filter(at=at, policy=policy, horizon__isnull=True).exists():
        LookAgain.objects.create(tenant_id=require_scope(), at=at, policy=policy)
