"""Who could approve what, before there is anything to approve: a proposal that does not exist is asked for its facts.

Nothing here knows a rule. The facts are those of `rules.py`, of a proposal that is never saved; a later level is the
same policy without the levels before it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal

from access.directory import Directory, Member, directory
from access.roles import Role
from access.tenancy import require_scope
from approvals.blocking import block_of
from approvals.models import Escalated, MomentKind, Policy, Proposal
from approvals.rules import Facts, Way
from approvals.ruleset import Level, RuleSet
from approvals.schedule import Planned, planned
from approvals.sums import taken_for, tenant_zone
from approvals.telling import level_in_words


@dataclass(frozen=True, slots=True)
class Question:
    """What somebody wants to know: this, under these rules, asked at this moment. `amount` None: of no amount."""

    policy: str
    rules: RuleSet
    workflow: str
    at: datetime
    amount: Decimal | None = None
    currency: str = ""
    recipient: str = ""
    initiator_id: int = 0


@dataclass(frozen=True, slots=True)
class Candidate:
    """One person at one level: whether they could sign, for whom, or why not; and whether an escalation changes that."""

    handle: str
    can: bool
    signs_for: str
    away: bool
    why_not: str
    later: str


@dataclass(frozen=True, slots=True)
class LevelAnswer:
    """One level and everybody who could come into question for it, who can sign first."""

    number: int
    name: str
    asks: str
    people: list[Candidate]

    @property
    def able(self) -> int:
        return sum(p.can for p in self.people)


@dataclass(frozen=True, slots=True)
class Moment:
    """Something that would happen by itself; `left_out`: why it would not come, or ""."""

    at: datetime
    what: str
    left_out: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What would be. `blocked`: the people at work could not complete it. `over`: why the sums of a waiving policy stop it."""

    waived: bool
    over: str
    levels: list[LevelAnswer]
    blocked: bool
    together: bool
    password: bool
    expires_at: datetime
    moments: list[Moment]


def simulate(asked: Question) -> Answer:
    """Who could approve it. Needs a tenant's scope; writes nothing.

    Delegations, absences and what is reserved of sums are those of the moment asked about; roles and groups today's.
    """
    facts, zone = _facts(asked), tenant_zone()
    expires_at = asked.rules.expiry(asked.at, zone)
    over = facts.over_sums(0) if asked.rules.waives_approval else None
    return Answer(
        waived=asked.rules.waives_approval,
        over=str(over) if over else "",
        levels=[] if asked.rules.waives_approval else _levels(facts, asked),
        blocked=not asked.rules.waives_approval and facts.blocked,
        together=facts.bulk,
        password=facts.needs_reentry,
        expires_at=expires_at,
        moments=sorted(_moments(asked, expires_at), key=lambda moment: moment.at),
    )


def _facts(asked: Question) -> Facts:
    policy = Policy(tenant_id=require_scope(), name=asked.policy)
    amounts = [] if asked.amount is None else [(str(asked.amount), asked.currency)]
    proposal = Proposal(
        tenant_id=require_scope(),
        policy=policy,
        quorum=asked.rules.quorum,
        recipient=asked.recipient,
        amounts=json.dumps(amounts),
        initiator_id=asked.initiator_id,
    )
    taken = taken_for({asked.policy: [asked.rules]}, asked.at)[asked.policy]
    return Facts(
        proposal=proposal,
        workflow=asked.workflow,
        frozen=asked.rules,
        current=asked.rules,
        directory=directory(asked.at),
        contributors=frozenset({asked.initiator_id} - {0}),
        live=[],
        escalated=[],
        taken=taken,
        block=block_of(asked.recipient),
    )


def _levels(facts: Facts, asked: Question) -> list[LevelAnswer]:
    answers = []
    for index, level in enumerate(asked.rules.levels):
        number = index + 1
        named = level.model_copy(update={"name": level.name or f"level {number}"})
        rest = asked.rules.model_copy(update={"levels": (named, *asked.rules.levels[number:])})
        there = replace(facts, frozen=rest, current=rest)
        people = _candidates(there, named)
        answers.append(LevelAnswer(number, named.name, level_in_words(level), people))
    return answers


def _candidates(facts: Facts, level: Level) -> list[Candidate]:
    found = [_candidate(facts, member) for member in _asked_for(facts.directory, level)]
    return sorted(found, key=lambda one: (not one.can, not one.later, one.handle))


def _asked_for(people: Directory, level: Level) -> list[Member]:
    """Managers, and who is in the level's group without being one: that is why they cannot sign."""
    return [
        m
        for m in people.members.values()
        if Role.MANAGER in m.roles or (level.group and level.group in m.groups)
    ]


def _candidate(facts: Facts, member: Member) -> Candidate:
    way = facts.way(member.person_id)
    if isinstance(way, Way):
        signs_for = way.giver.handle if way.giver else ""
        return Candidate(member.handle, True, signs_for, member.away, "", "")
    return Candidate(member.handle, False, "", member.away, str(way), _later(facts, member))


def _later(facts: Facts, member: Member) -> str:
    """From which escalation on they could sign, if from any."""
    steps: list[Escalated] = []
    for number, step in enumerate(facts.frozen.escalation, start=1):
        role = step.role.value if step.role else ""
        steps.append(
            Escalated(
                step=number, person=step.person, group=step.group, role=role, may_decide=step.may_decide
            )
        )
        if step.may_decide and isinstance(replace(facts, escalated=steps).way(member.person_id), Way):
            return f"once it is escalated to {step.to}"
    return ""


def _moments(asked: Question, expires_at: datetime) -> list[Moment]:
    rules = asked.rules
    return [
        Moment(one.at, _what(rules, one), one.left_out)
        for one in planned(rules, asked.at, expires_at, tenant_zone())
    ]


def _what(rules: RuleSet, one: Planned) -> str:
    if one.kind is MomentKind.REMINDER:
        return "Whoever can sign is reminded"
    step = rules.escalation[one.step - 1]
    return f"{step.to} is told{' and may sign' if step.may_decide else ''}"
