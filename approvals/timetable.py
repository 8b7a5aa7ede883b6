"""A proposal's times for its slip: when people were reminded, to whom it was escalated, and what comes next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from approvals import schedule
from approvals.actions.remind import EVERY
from approvals.missing import why_blocked
from approvals.models import Escalated, Moment, MomentKind, Proposal, Reminded
from approvals.notifying import who_could_sign
from approvals.rules import Facts
from approvals.wording import count


@dataclass(frozen=True, slots=True)
class Line:
    """One moment. `state`: "done", "next" or "no", as its mark is named."""

    at: datetime
    words: str
    state: str


@dataclass(frozen=True, slots=True)
class Timetable:
    """The lines in order; why nobody can complete it, or ""; and what its initiator can do about it.

    `remind_from`: until then its initiator has to wait before the next reminder.
    """

    lines: list[Line]
    blocked: str
    can_remind: bool
    remind_from: datetime | None


def timetable(facts: Facts, *, awaits: bool, mine: bool, now: datetime) -> Timetable:
    """`awaits`: it can be decided now. `mine`: the reader started its job. One query, two where the policy has a schedule."""
    proposal = facts.proposal
    reminded = list(Reminded.objects.filter(proposal=proposal).select_related("by").order_by("at", "pk"))
    escalated = facts.escalated
    moments = schedule.moments_of(proposal)
    asked = [r.at for r in reminded if not r.step]
    again = max(asked, default=now - EVERY) + EVERY
    waits = awaits and mine and again > now
    lines = [*map(_reminder, reminded), *map(_escalation, escalated)]
    return Timetable(
        lines=[
            *sorted(lines, key=lambda line: line.at),
            *_to_come(facts, moments, reminded, escalated, awaits),
        ],
        blocked=why_blocked(facts) if awaits and facts.blocked else "",
        can_remind=awaits and mine and not waits and bool(who_could_sign(facts)),
        remind_from=again if waits else None,
    )


def _to_come(
    facts: Facts, moments: list[Moment], reminded: list[Reminded], escalated: list[Escalated], awaits: bool
) -> Iterator[Line]:
    done = {(MomentKind.REMINDER.value, r.step) for r in reminded}
    done |= {(MomentKind.ESCALATION.value, e.step) for e in escalated}
    for moment in moments:
        if moment.left_out:
            yield Line(moment.at, f"{_what(facts.proposal, moment)} left out: {moment.left_out}", "no")
        elif awaits and (moment.kind, moment.step) not in done:
            yield Line(moment.at, f"Next: {_lower(_what(facts.proposal, moment))}", "next")


def _what(proposal: Proposal, moment: Moment) -> str:
    if moment.kind == MomentKind.REMINDER:
        return "Reminder"
    step = proposal.policy.ruleset.escalation[moment.step - 1]
    return f"Escalation to {step.to}{', who may sign from then on' if step.may_decide else ''}"


def _lower(words: str) -> str:
    return words[:1].lower() + words[1:]


def _reminder(row: Reminded) -> Line:
    if row.passed:
        return Line(row.at, f"Reminder {row.step} was not given by itself: a later one was due", "no")
    told = f"{count(row.told, 'person', 'people')} told" if row.told else "nobody told by e-mail"
    return Line(row.at, f"Reminded{f' by {row.by.username}' if row.by else ''}, {told}", "done")


def _escalation(row: Escalated) -> Line:
    return Line(row.at, f"Escalated to {row.to}{', who may sign since' if row.may_decide else ''}", "done")
