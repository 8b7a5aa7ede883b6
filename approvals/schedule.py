"""A proposal's own schedule: its moments are fixed when it is asked, by the frozen policy, in the tenant's time zone then.

A later revision of the policy, or another time zone of the tenant, moves none of them. A moment that is past when the
proposal is asked, or not before its expiry, is left out and kept as such. What happens at a moment is in
`actions/notify.py`, a machine item of the proposal that is called at the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from approvals import document
from approvals.models import Escalated, Moment, MomentKind, Proposal, Reminded
from approvals.ruleset import RuleSet, When
from approvals.sums import tenant_zone
from workflows import machines
from workflows.models import Job

MACHINE = "approvals.notify"
PAST = "it was past already when this was asked"
TOO_LATE = "it is not before the expiry"


@dataclass(frozen=True, slots=True)
class Planned:
    """One moment before it is kept; `left_out`: why it will not come, or ""."""

    kind: MomentKind
    step: int
    at: datetime
    left_out: str


def plan(proposal: Proposal, rules: RuleSet) -> dict[str, object]:
    """Keep the moments of a proposal that is being asked; what the journal says of them, nothing where there are none."""
    if not (rules.reminders or rules.escalation):
        return {}
    moments = [
        Moment(
            tenant_id=proposal.tenant_id,
            proposal=proposal,
            kind=one.kind,
            step=one.step,
            at=one.at,
            left_out=one.left_out,
        )
        for one in planned(rules, proposal.frozen_at, proposal.expires_at, tenant_zone())
    ]
    Moment.objects.bulk_create(moments)
    return {"schedule": [_told(m) for m in sorted(moments, key=lambda m: (m.at, m.kind, m.step))]}


def planned(rules: RuleSet, asked: datetime, expires_at: datetime, zone: ZoneInfo) -> list[Planned]:
    """The moments that a policy gives a proposal that is asked then, and why one is left out. Pure."""
    found = []
    for kind, step, when in _steps(rules):
        at = when.moment(asked, expires_at, zone)
        left_out = PAST if at <= asked else TOO_LATE if at >= expires_at else ""
        found.append(Planned(kind, step, at, left_out))
    return found


def ring(job: Job, proposal: Proposal, *, now: bool = False) -> None:
    """Have the machine called at the first moment, or `now` where the proposal has gone back to its approvers."""
    moments = Moment.objects.filter(proposal=proposal, left_out="").order_by("at")
    first = moments.values_list("at", flat=True).first() if _has_any(proposal) else None
    if first is not None:
        machines.ring(job=job, machine=MACHINE, key=str(proposal.pk), at=None if now else first)


def open_moments(proposal: Proposal) -> list[Moment]:
    """What has not happened yet, in order. Three queries at most."""
    if not _has_any(proposal):
        return []
    reminded = set(Reminded.objects.filter(proposal=proposal, step__gt=0).values_list("step", flat=True))
    escalated = set(Escalated.objects.filter(proposal=proposal).values_list("step", flat=True))
    done = {MomentKind.REMINDER.value: reminded, MomentKind.ESCALATION.value: escalated}
    moments = Moment.objects.filter(proposal=proposal, left_out="").order_by("at", "kind", "step")
    return [m for m in moments if m.step not in done[m.kind]]


def moments_of(proposal: Proposal) -> list[Moment]:
    """All of them in order, those that were left out too. No query where the policy has none."""
    moments = Moment.objects.filter(proposal=proposal).order_by("at", "kind", "step")
    return list(moments) if _has_any(proposal) else []


def next_after(moments: list[Moment], now: datetime) -> datetime | None:
    """The next moment that is still to come."""
    return min((m.at for m in moments if m.at > now), default=None)


def _has_any(proposal: Proposal) -> bool:
    rules = proposal.policy.ruleset
    return bool(rules.reminders or rules.escalation)


def _steps(rules: RuleSet) -> Iterator[tuple[MomentKind, int, When]]:
    for step, reminder in enumerate(rules.reminders, start=1):
        yield MomentKind.REMINDER, step, reminder
    for step, escalation in enumerate(rules.escalation, start=1):
        yield MomentKind.ESCALATION, step, escalation


def _told(moment: Moment) -> dict[str, object]:
    told: dict[str, object] = {
        "kind": moment.kind, "step": moment.step, "at": document.stamp(moment.at)
    }  # fmt: skip
    return {**told, "left_out": moment.left_out} if moment.left_out else told
