"""What names what: the groups that a policy asks for, the policies that need a group, the workflows that need a policy."""

from __future__ import annotations

from collections.abc import Iterator

from django.db.models import Exists, OuterRef

from approvals.facts import all_in_force
from approvals.models import Policy, Proposal
from approvals.ruleset import RuleSet
from workflows import registry


def groups_in(rules: RuleSet) -> set[str]:
    """The groups that a policy names."""
    named = {level.group for level in rules.levels} | {limit.group for limit in rules.limits}
    return (named | {step.group for step in rules.escalation}) - {""}


def needs_group(group: str) -> Iterator[str]:
    """What needs a group to be called so: policies in force, and others that an open proposal was asked under."""
    names = {p.name for p in all_in_force() if group in groups_in(p.ruleset)}
    yield from (f"the policy {name}" for name in sorted(names))
    still_open = Proposal.objects.filter(policy=OuterRef("pk"), closed_at__isnull=True)
    kept = Policy.objects.filter(Exists(still_open)).order_by("name", "revision")
    for policy in kept:
        if policy.name not in names and group in groups_in(policy.ruleset):
            yield f"proposals that are open under revision {policy.revision} of {policy.name}"


def deployed_under(policy: str) -> list[str]:
    """The titles of the workflows that are deployed here, old revisions too, that are approved under a policy."""
    named = (w.title or w.name for w in registry.workflows().values() if w.approval_policy == policy)
    return list(dict.fromkeys(named))
