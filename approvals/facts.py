"""The facts that decide who may decide, read at the moment of asking: a few queries, however many proposals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Exists, OuterRef, QuerySet
from django.utils import timezone

from access import directory as people_here
from access.directory import Directory, directory
from access.statements import Asked, Select, Values
from approvals.blocking import blocks_of, key_of
from approvals.models import Decision, DecisionVoid, Escalated, Policy, Proposal
from approvals.rules import Facts
from approvals.ruleset import RuleSet
from approvals.sums import taken_for
from workflows.models import JournalEntry

CONTRIBUTING = (
    "job.received",
    "question.answered",
    "item.corrected",
    "item.skipped",
    "job.redriven",
    "job.migrated",
    "steps.run_again",
    "proposal.again_asked",
)
"""Events whose author had a hand in what is proposed, and so cannot sign it under four eyes."""


def newest(name: str) -> Policy | None:
    """The highest revision of a policy in the scope's tenant, that which ended it included."""
    return _NEWEST.first([name])


def in_force(name: str) -> Policy | None:
    """The revision under which a policy asks now; None where there is none, or it was ended."""
    found = newest(name)
    return None if found is None or found.end_reason else found


def all_in_force() -> list[Policy]:
    """Every policy that was not ended, by name. One query."""
    rows = Policy.objects.order_by("name", "-revision").distinct("name")
    return [policy for policy in rows if not policy.end_reason]


def facts_of(proposal: Proposal) -> Facts:
    """The facts about one proposal, as they are now."""
    return facts_for([proposal])[proposal.pk]


def asked_about(proposal: Proposal) -> list[Asked]:
    """What `facts_of` will ask in any case, to be asked `ahead`."""
    return [
        _NEWEST.asked([proposal.policy.name]),
        _LIVE.asked([proposal.pk]),
        _CONTRIBUTED.asked([proposal.job_id]),
        *people_here.asked(),
    ]


def facts_for(
    proposals: Sequence[Proposal],
    instead: RuleSet | None = None,
    people: Directory | None = None,
    current: Mapping[str, RuleSet] | None = None,
) -> dict[int, Facts]:
    """The facts about a batch, in a few queries whatever its size. The proposals come with their policies and jobs.

    `instead`: a rule set that nobody has written yet, taken for what is in force. `people`, `current`: what was read already.
    """
    names = {p.policy.name for p in proposals}
    current = dict(current or {}) if instead is None else dict.fromkeys(names, instead)
    if unread := names - current.keys():
        current |= current_rules(unread)
    live, involved = _live_decisions(proposals), _contributors({p.job_id for p in proposals})
    rulesets = {name: [current[name]] for name in names}
    for p in proposals:
        if p.policy.ruleset not in rulesets[p.policy.name]:
            rulesets[p.policy.name].append(p.policy.ruleset)
    people, escalated = people or directory(), _escalated(proposals, rulesets)
    taken = taken_for(rulesets, timezone.now(), [p.pk for p in proposals if p.approved_at is not None])
    blocks = blocks_of(p.recipient for p in proposals)
    return {
        p.pk: Facts(
            proposal=p,
            workflow=p.job.workflow,
            frozen=p.policy.ruleset,
            current=current[p.policy.name].for_two() if p.two_because else current[p.policy.name],
            directory=people,
            contributors=frozenset(involved[p.job_id]),
            live=live[p.pk],
            escalated=escalated[p.pk],
            taken=taken[p.policy.name],
            block=blocks.get(key_of(p.recipient)),
        )
        for p in proposals
    }


def current_rules(names: set[str]) -> dict[str, RuleSet]:
    """The newest rules under these names; of a policy that was ended, its last. One query."""
    return {p.name: p.ruleset for p in _NEWEST.all(list(names))}


def _live_decisions(proposals: Sequence[Proposal]) -> dict[int, list[Decision]]:
    found: dict[int, list[Decision]] = defaultdict(list)
    for decision in _LIVE.all([p.pk for p in proposals]):
        found[decision.proposal_id].append(decision)
    return found


def _escalated(
    proposals: Sequence[Proposal], rulesets: Mapping[str, Sequence[RuleSet]]
) -> dict[int, list[Escalated]]:
    """The steps that were taken; no query where no policy has any."""
    asked = [p.pk for p in proposals if any(rules.escalation for rules in rulesets[p.policy.name])]
    found: dict[int, list[Escalated]] = defaultdict(list)
    for step in Escalated.objects.filter(proposal__in=asked).order_by("step") if asked else ():
        found[step.proposal_id].append(step)
    return found


def _contributors(job_ids: set[int]) -> dict[int, set[int]]:
    """Everybody who started, corrected or asked again, from the jobs' own journals."""
    found: dict[int, set[int]] = defaultdict(set)
    for job_id, actor_id in _CONTRIBUTED.all(list(job_ids)):
        found[job_id].add(actor_id)
    return found


def _live(proposals: Any) -> QuerySet[Decision]:
    voids = DecisionVoid.objects.filter(decision=OuterRef("pk"))
    rows = Decision.objects.filter(~Exists(voids), proposal__pk__among=proposals)
    return rows.select_related("person").order_by("decided_at", "pk")


def _contributed(jobs: Any) -> QuerySet[JournalEntry, tuple[Any, ...]]:
    rows = JournalEntry.objects.filter(job__pk__among=jobs, event__in=CONTRIBUTING, actor_id__gt=0)
    return rows.values_list("job_id", "actor_id")


_NEWEST = Select(
    lambda names: Policy.objects.filter(name__among=names).order_by("name", "-revision").distinct("name")
)
_LIVE = Select(_live)
_CONTRIBUTED = Values(_contributed)
