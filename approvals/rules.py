"""Who may decide what, in one place for every door: page, API, dispatch, and the sentence on the screen.

The stricter of the frozen and the current revision of a policy holds, rule by rule.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from django.db.models import Exists, OuterRef

from access import authority
from access.refusals import NotPermitted
from access.roles import Role
from approvals.models import Decision, DecisionVoid, Policy, Proposal, Verdict
from workflows.models import Job, JournalEntry

CONTRIBUTING = ("job.received", "item.corrected", "proposal.again_asked")
"""Events whose author had a hand in what is proposed, and so cannot sign it under four eyes."""


class NotAnApprover(NotPermitted):
    """The person holds no role that decides proposals, or is no longer active."""

    short: ClassVar = "Only managers decide"


class FourEyes(NotPermitted):
    """The person started the job or had a hand in it."""

    def __init__(self, message: str, short: str) -> None:
        super().__init__(message)
        self.short = short


class OverLimit(NotPermitted):
    """The amount is above what may be approved under the policy, or in a currency that it cannot be compared with."""

    short: ClassVar = "Over your limit"


Objection = NotAnApprover | FourEyes | OverLimit


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for one proposal now. `limits` are all to be kept."""

    quorum: int
    four_eyes: bool
    limits: tuple[tuple[Decimal, str], ...]


def in_force(name: str) -> Policy | None:
    """The highest revision of a policy in the scope's tenant."""
    return Policy.objects.filter(name=name).order_by("-revision").first()


def rules_for(proposal: Proposal) -> Rules:
    """The stricter of the proposal's frozen policy and today's revision of it."""
    frozen = proposal.policy
    return stricter(proposal.quorum, frozen, in_force(frozen.name) or frozen)


def stricter(frozen_quorum: int, frozen: Policy, current: Policy) -> Rules:
    """Rule by rule the stricter one. A waiver counts as a quorum of nobody."""
    limits = [(p.limit_amount, p.limit_currency) for p in (frozen, current) if p.limit_amount is not None]
    return Rules(
        quorum=max(frozen_quorum, 0 if current.waives_approval else current.quorum),
        four_eyes=frozen.four_eyes or current.four_eyes,
        limits=tuple(dict.fromkeys(limits)),
    )


def contributors(job: Job) -> frozenset[int]:
    """Everybody who started, corrected or asked again, from the job's own journal."""
    rows = JournalEntry.objects.filter(job=job, event__in=CONTRIBUTING, actor_id__gt=0)
    return frozenset(rows.values_list("actor_id", flat=True)) | {job.submitted_by_id}


def amounts_of(proposal: Proposal) -> list[tuple[Decimal, str]]:
    """What limits are compared with."""
    return [(Decimal(amount), currency) for amount, currency in json.loads(proposal.amounts)]


def over_limit(
    amounts: Iterable[tuple[Decimal, str]], limits: Iterable[tuple[Decimal, str]]
) -> OverLimit | None:
    """The first limit that is not kept. Money of another currency is never compared: it counts as over."""
    limits = list(limits)
    for amount, currency in amounts:
        for limit, limit_currency in limits:
            if currency != limit_currency:
                return OverLimit(
                    f"The limit is in {limit_currency} and this is in {currency}: they are never compared,"
                    " so nobody may approve it under this policy."
                )
            if abs(amount) > limit:
                return OverLimit(f"This is above the limit of {limit:,.2f} {limit_currency} for an approval.")
    return None


def objection(
    person_id: int, *, job: Job, proposal: Proposal, rules: Rules, verdict: str = Verdict.APPROVE
) -> Objection | None:
    """Why this person may not give this verdict, or None. Reads roles and activity at this moment."""
    return objection_of(
        person_id,
        manages=Role.MANAGER in authority.roles_of(person_id),
        initiator_id=job.submitted_by_id,
        contributed=contributors(job),
        amounts=amounts_of(proposal),
        rules=rules,
        verdict=verdict,
    )


def objection_of(
    person_id: int,
    *,
    manages: bool,
    initiator_id: int,
    contributed: frozenset[int],
    amounts: list[tuple[Decimal, str]],
    rules: Rules,
    verdict: str = Verdict.APPROVE,
) -> Objection | None:
    """The same from facts already read, for lists. Saying no needs no limit."""
    if not manages:
        return NotAnApprover("Only a manager of this organisation may decide this.")
    if rules.four_eyes and person_id == initiator_id:
        return FourEyes("You started this job, so somebody else has to decide it.", "You started this job")
    if rules.four_eyes and person_id in contributed:
        return FourEyes(
            "You had a hand in this job, so somebody else has to decide it.", "You had a hand in this job"
        )
    return over_limit(amounts, rules.limits) if verdict == Verdict.APPROVE else None


def live_approvals(proposal: Proposal) -> list[Decision]:
    """Approvals that nobody has voided, oldest first, whatever became of their authors."""
    voids = DecisionVoid.objects.filter(decision=OuterRef("pk"))
    query = Decision.objects.filter(~Exists(voids), proposal=proposal, verdict=Verdict.APPROVE)
    return list(query.select_related("person").order_by("decided_at", "pk"))


def valid_approvals(*, job: Job, proposal: Proposal, rules: Rules) -> list[Decision]:
    """Approvals that count now: live, of the digest, by active managers whom nothing excludes."""
    return [
        d
        for d in live_approvals(proposal)
        if d.digest == proposal.digest
        and objection(d.person_id, job=job, proposal=proposal, rules=rules) is None
    ]


def eligible(*, job: Job, proposal: Proposal, rules: Rules) -> list[int]:
    """Everybody who may approve now, those who have included."""
    return [
        p.pk
        for p in authority.people_with(Role.MANAGER)
        if objection(p.pk, job=job, proposal=proposal, rules=rules) is None
    ]
