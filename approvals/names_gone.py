"""Who and what a policy names that is no longer there: said on its page, since nobody can sign for a name that is gone."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from access.directory import Directory, directory
from access.models import Group
from access.roles import Role
from approvals.levels import belonging
from approvals.naming import groups_in
from approvals.ruleset import RuleSet


def warnings(
    rules: RuleSet, people: Directory | None = None, groups: Collection[str] | None = None
) -> list[str]:
    """One sentence for each name that leads nowhere, or to too few. Needs a tenant's scope.

    `groups`: the names of those there are, where the caller has read them.
    """
    people = people or directory()
    if groups is None:
        groups = set(Group.objects.filter(ended_at__isnull=True).values_list("name", flat=True))
    return [*_people(rules, people), *_groups(rules, people, groups), *_levels(rules, people)]


def _people(rules: RuleSet, people: Directory) -> Iterator[str]:
    here = {m.handle: m for m in people.members.values()}
    named = {one.person for one in rules.limits} | {step.person for step in rules.escalation}
    deciding = {one.person for one in rules.limits} | {s.person for s in rules.escalation if s.may_decide}
    for handle in sorted(named - {""}):
        if handle not in here:
            yield f"{handle} is named and no longer here: the account is disabled, or holds no role."
        elif handle in deciding and Role.MANAGER not in here[handle].roles:
            yield f"{handle} is named and no manager, so what is said of them has no effect."


def _groups(rules: RuleSet, people: Directory, known: Collection[str]) -> Iterator[str]:
    for group in sorted(groups_in(rules)):
        if group not in known:
            yield f"The group {group} is named and not there."
        elif not any(group in m.groups for m in people.members.values()):
            yield f"The group {group} is empty."


def _levels(rules: RuleSet, people: Directory) -> Iterator[str]:
    belongs = belonging(())
    for number, level in enumerate(() if rules.waives_approval else rules.levels, start=1):
        able = sum(Role.MANAGER in m.roles and belongs(m, level) for m in people.members.values())
        if able < level.quorum:
            name = f"Level {number}" + (f" (“{level.name}”)" if level.name else "")
            yield f"{name} asks for {level.quorum}, and {able or 'nobody'} could sign there."
