"""Approval policies: immutable revisions of named rules. The highest revision of a name is in force."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import Max
from pydantic import ValidationError

from access import authority, tenant_journal
from access.directory import directory
from access.models import Group
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting
from approvals import canonical
from approvals.models import Policy
from approvals.ruleset import RuleSet


class BadPolicy(Unprocessable):
    """The rules contradict themselves; the message says where."""


class PolicyWrittenMeanwhile(Conflict):
    """Somebody else wrote a revision of the same policy at the same moment."""


def write_policy(*, tenant_id: int, name: str, rules: RuleSet, created_by: Actor, now: datetime) -> Policy:
    """Write the next revision of a policy, which is in force from then on; open proposals keep theirs, and the
    stricter of both holds for them.

    A person has to be an admin. Locks nothing; of two at once one is PolicyWrittenMeanwhile. A repeat writes another
    revision. Raises NotPermitted, BadPolicy.
    """
    try:
        with acting(tenant_id):
            if created_by.is_person:
                created_by = authority.require(created_by.person_id, Role.ADMIN)
            _check(name, rules)
            last = Policy.objects.filter(name=name).aggregate(last=Max("revision"))["last"]
            policy = Policy.objects.create(
                tenant_id=tenant_id,
                name=name,
                revision=(last or 0) + 1,
                rules=text_of(rules),
                waives_approval=rules.waives_approval,
                quorum=sum(level.quorum for level in rules.levels),
                four_eyes=rules.four_eyes,
                created_at=now,
                created_by=created_by.name,
            )
            evidence = {"policy": name, "revision": policy.revision, "rules": canonical.parse(policy.rules)}
            tenant_journal.record(event="policy.written", actor=created_by, evidence=evidence)
            return policy
    except IntegrityError as failed:
        if "one_policy_a_revision" not in str(failed):
            raise
        raise PolicyWrittenMeanwhile(
            f'Somebody else has just written "{name}". Look at it again.'
        ) from failed


def read_rules(value: Mapping[str, Any]) -> RuleSet:
    """A rule set from plain values, or BadPolicy with the first fault as a sentence."""
    try:
        return RuleSet.model_validate(value)
    except ValidationError as invalid:
        first = invalid.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise BadPolicy(f"{place}: {said}." if place else f"{said[:1].upper()}{said[1:]}.") from invalid


def text_of(rules: RuleSet) -> str:
    """The canonical text that is stored: every rule in full, those that have their defaults too."""
    return canonical.write(rules.model_dump(mode="json"))


def _check(name: str, rules: RuleSet) -> None:
    if not name.strip() or len(name) > 100:
        raise BadPolicy("Give the policy a name of up to 100 characters.")
    people = {limit.person for limit in rules.limits} | {step.person for step in rules.escalation}
    groups = {level.group for level in rules.levels} | {limit.group for limit in rules.limits}
    groups |= {step.group for step in rules.escalation}
    members = {m.handle for m in directory().members.values()}
    for handle in sorted(people - members - {""}):
        raise BadPolicy(f'There is nobody called "{handle}" in this organisation.')
    known = set(Group.objects.filter(name__in=groups).values_list("name", flat=True))
    for group in sorted(groups - known - {""}):
        raise BadPolicy(f'There is no group "{group}" in this organisation. Make it first.')
