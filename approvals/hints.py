"""What the database can leave out of "For me" before the rules are asked: only what the rules would refuse for certain.

`Facts` alone says who may decide. What is left out here it would refuse, by the same functions for levels and limits;
what is let through it is asked about one by one. So a hint that is too wide costs time, and none can hide a proposal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.db.models import Exists, OuterRef, Q

from access.directory import Directory, Member
from access.roles import Role
from approvals.levels import belonging
from approvals.limits import limits_for, most_allowed
from approvals.models import Decision, DecisionVoid, Policy, Proposal
from approvals.ruleset import Money, RuleSet

OTHER_WORKFLOW = ""
LARGEST = Decimal("9999999999999999.9999")
"""What the column holds at most."""


@dataclass(frozen=True, slots=True)
class Hint:
    """What a person could approve under one revision of a policy. `most`: by currency, None without any limit."""

    not_own: bool
    most: tuple[tuple[str, Decimal], ...] | None


def perhaps_for(
    person_id: int, people: Directory, policies: Sequence[Policy], current: Mapping[str, RuleSet]
) -> Q | None:
    """A condition on open proposals that all have to meet which the person may approve; None: there can be none.

    `policies`: the revisions that something waits under; `current`: what is in force under their names.
    """
    person = people.members.get(person_id)
    if person is None or Role.MANAGER not in person.roles:
        return None
    by_hint: dict[Hint, list[int]] = defaultdict(list)
    for policy in policies:
        hint = _hint(person, _principals(person, people, policy.name), (policy.ruleset, current[policy.name]))
        if hint is not None:
            by_hint[hint].append(policy.pk)
    if not by_hint:
        return None
    allowed = Q()
    for hint, ids in by_hint.items():
        allowed |= Q(policy__in=ids) & _condition(hint, person_id)
    voids = DecisionVoid.objects.filter(decision=OuterRef("pk"))
    signed = Decision.objects.filter(~Exists(voids), proposal=OuterRef("pk"), person=person_id)
    return allowed & Q(~Exists(signed))


def policies_of_what_waits() -> list[Policy]:
    """The revisions that open proposals were frozen under. One query."""
    open_ones = Proposal.objects.filter(
        policy=OuterRef("pk"), closed_at__isnull=True, approved_at__isnull=True
    )
    return list(Policy.objects.filter(Exists(open_ones)))


def _principals(person: Member, people: Directory, policy: str) -> list[Member]:
    """Whose authority the person could use."""
    lent = [one for one in people.taken_by(person.person_id) if one.covers(policy)]
    return [person, *(people.members[one.giver_id] for one in lent)]


def _hint(person: Member, principals: Sequence[Member], rulesets: Sequence[RuleSet]) -> Hint | None:
    """What is possible under both revisions, or None where nothing is."""
    escalates = any(step.may_decide for rules in rulesets for step in rules.escalation)
    levels = [level for rules in rulesets for level in rules.levels]
    belongs = belonging(())
    if not escalates and not any(belongs(one, level) for one in principals for level in levels):
        return None
    return Hint(
        not_own=any(rules.four_eyes for rules in rulesets),
        most=_least([_most(person, rules) for rules in rulesets]),
    )


def _most(person: Member, rules: RuleSet) -> dict[str, Decimal] | None:
    """By currency, the most that the person may approve of any workflow. Their own limit holds whoever lends to them."""
    if not rules.limits:
        return None
    workflows = {OTHER_WORKFLOW, *(limit.workflow for limit in rules.limits)}
    bounds: list[Sequence[Money]] = [limits_for(person, name, rules) or () for name in workflows]
    named = {limit.currency for limit in rules.limits}
    convertible = {pair.partition("/")[0] for pair in rules.rates}
    found: dict[str, Decimal] = {}
    for currency in named | convertible:
        allowed = [m for bound in bounds if (m := most_allowed(currency, bound, rules.rates)) is not None]
        if allowed:
            found[currency] = min(max(allowed), LARGEST)
    return found


def _least(bounds: Sequence[dict[str, Decimal] | None]) -> tuple[tuple[str, Decimal], ...] | None:
    given = [bound for bound in bounds if bound is not None]
    if not given:
        return None
    both = set.intersection(*(set(bound) for bound in given))
    return tuple((currency, min(bound[currency] for bound in given)) for currency in sorted(both))


def _condition(hint: Hint, person_id: int) -> Q:
    condition = ~Q(initiator=person_id) if hint.not_own else Q()
    if hint.most is None:
        return condition
    fits = Q(amount__isnull=True) | Q(currency="")
    for currency, most in hint.most:
        fits |= Q(currency=currency, amount__gte=-most, amount__lte=most)
    return condition & fits
