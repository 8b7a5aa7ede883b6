"""Who may decide what, in one place for every door: page, API, dispatch, and the sentence on the screen.

The stricter of the frozen and the current revision of a policy holds, rule by rule.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from django.db.models import Exists, OuterRef

from access import authority
from access.refusals import NotPermitted
from access.roles import Role
from approvals.models import Decision, DecisionVoid, Policy, Proposal, Verdict
from workflows.models import JournalEntry

CONTRIBUTING = (
    "job.received",
    "question.answered",
    "item.corrected",
    "item.skipped",
    "job.redriven",
    "job.migrated",
    "proposal.again_asked",
)
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


def stricter(frozen_quorum: int, frozen: Policy, current: Policy) -> Rules:
    """Rule by rule the stricter one. A waiver counts as a quorum of nobody."""
    limits = [(p.limit_amount, p.limit_currency) for p in (frozen, current) if p.limit_amount is not None]
    return Rules(
        quorum=max(frozen_quorum, 0 if current.waives_approval else current.quorum),
        four_eyes=frozen.four_eyes or current.four_eyes,
        limits=tuple(dict.fromkeys(limits)),
    )


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


@dataclass(frozen=True, slots=True)
class Facts:
    """All that says who may decide one proposal, read at one moment. `live` are the decisions that nobody voided."""

    proposal: Proposal
    rules: Rules
    managers: frozenset[int]
    contributors: frozenset[int]
    live: list[Decision]

    def objection(self, person_id: int, verdict: str = Verdict.APPROVE) -> Objection | None:
        """Why this person may not give this verdict, or None. Saying no needs no limit."""
        if person_id not in self.managers:
            return NotAnApprover("Only a manager of this organisation may decide this.")
        if self.rules.four_eyes and person_id == self.proposal.initiator_id:
            return FourEyes(
                "You started this job, so somebody else has to decide it.", "You started this job"
            )
        if self.rules.four_eyes and person_id in self.contributors:
            return FourEyes(
                "You had a hand in this job, so somebody else has to decide it.", "You had a hand in this job"
            )
        if verdict != Verdict.APPROVE:
            return None
        return over_limit(amounts_of(self.proposal), self.rules.limits)

    @property
    def approvals(self) -> list[Decision]:
        """Live approvals, oldest first, whatever became of their authors."""
        return [d for d in self.live if d.verdict == Verdict.APPROVE]

    @property
    def valid(self) -> list[Decision]:
        """Approvals that count now: of the digest, by active managers whom nothing excludes."""
        return [
            d
            for d in self.approvals
            if d.digest == self.proposal.digest and self.objection(d.person_id) is None
        ]

    @property
    def able(self) -> frozenset[int]:
        """Everybody who may approve now, those who have included."""
        return frozenset(person_id for person_id in self.managers if self.objection(person_id) is None)

    @property
    def missing(self) -> int:
        """How many approvals the quorum still lacks."""
        return max(self.rules.quorum - len(self.valid), 0)

    def own(self, person_id: int) -> Decision | None:
        """The person's decision that counts, if any."""
        return next((d for d in self.live if d.person_id == person_id), None)


def facts_of(proposal: Proposal) -> Facts:
    """The facts about one proposal, as they are now."""
    return facts_for([proposal])[proposal.pk]


def facts_for(proposals: Sequence[Proposal]) -> dict[int, Facts]:
    """The facts about a batch, in four queries whatever its size. The proposals come with their policies."""
    current, live = _current_policies({p.policy.name for p in proposals}), _live_decisions(proposals)
    involved = _contributors({p.job_id for p in proposals})
    managers = frozenset(p.pk for p in authority.people_with(Role.MANAGER))
    return {
        p.pk: Facts(
            proposal=p,
            rules=stricter(p.quorum, p.policy, current[p.policy.name]),
            managers=managers,
            contributors=frozenset(involved[p.job_id]),
            live=live[p.pk],
        )
        for p in proposals
    }


def _current_policies(names: set[str]) -> dict[str, Policy]:
    query = Policy.objects.filter(name__in=names).order_by("name", "-revision").distinct("name")
    return {p.name: p for p in query}


def _live_decisions(proposals: Sequence[Proposal]) -> dict[int, list[Decision]]:
    voids = DecisionVoid.objects.filter(decision=OuterRef("pk"))
    query = Decision.objects.filter(~Exists(voids), proposal__in=[p.pk for p in proposals])
    found: dict[int, list[Decision]] = defaultdict(list)
    for decision in query.select_related("person").order_by("decided_at", "pk"):
        found[decision.proposal_id].append(decision)
    return found


def _contributors(job_ids: set[int]) -> dict[int, set[int]]:
    """Everybody who started, corrected or asked again, from the jobs' own journals."""
    rows = JournalEntry.objects.filter(job__in=job_ids, event__in=CONTRIBUTING, actor_id__gt=0)
    found: dict[int, set[int]] = defaultdict(set)
    for job_id, actor_id in rows.values_list("job_id", "actor_id"):
        found[job_id].add(actor_id)
    return found
