"""Approval policies: immutable revisions of named rules. The highest revision of a name is in force."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from django.db import IntegrityError

from access import authority, tenant_journal
from access.directory import directory
from access.locks import lock_groups
from access.models import Group
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting, require_scope
from approvals import canonical
from approvals.facts import newest
from approvals.models import Policy
from approvals.naming import deployed_under, groups_in
from approvals.policy_text import faults_in
from approvals.reasons import required_reason
from approvals.ruleset import RuleSet


class BadPolicy(Unprocessable):
    """The rules contradict themselves; the message says where."""


class PolicyWrittenMeanwhile(Conflict):
    """Somebody else wrote a revision of the same policy at the same moment."""


class PolicyNeeded(Conflict):
    """Workflows that are deployed name the policy; the message says which."""


class PolicyEnded(Conflict):
    """There is no such policy in force: it was ended before, or never written."""


def write_policy(
    *,
    tenant_id: int,
    name: str,
    rules: RuleSet,
    created_by: Actor,
    now: datetime,
    expected: int | None = None,
) -> Policy:
    """Write the next revision of a policy, which is in force from then on; open proposals keep theirs, and the
    stricter of both holds for them.

    A person has to be an admin. `expected`: the revision that was in force when they looked, 0 for none; another one
    is PolicyWrittenMeanwhile. A policy that was ended is in force again. Locks the groups that it names; of two at once
    one is refused likewise. A repeat without `expected` writes another revision. Raises NotPermitted, BadPolicy.
    """
    with _one_a_revision(name), acting(tenant_id):
        if created_by.is_person:
            created_by = authority.require(created_by.person_id, Role.ADMIN)
        lock_groups(groups_in(rules))
        check_rules(name, rules)
        before = newest(name)
        _as_expected(name, before, expected)
        policy = _insert(name, before, rules, "", created_by, now)
        evidence = {"policy": name, "revision": policy.revision, "rules": canonical.parse(policy.rules)}
        tenant_journal.record(event="policy.written", actor=created_by, evidence=evidence)
        return policy


def end_policy(
    *, tenant_id: int, name: str, reason: str, person_id: int, now: datetime, expected: int | None = None
) -> Policy:
    """End a policy by a last revision: nothing is asked under it from then on. Admins only, with a reason.

    What is open keeps the revision that it was asked under, and the last one holds beside it. Refused while a deployed
    workflow names it, since nothing of that could be proposed. `expected` as for `write_policy`. Locks nothing; a repeat
    is PolicyEnded. Raises NotPermitted, ReasonMissing, PolicyNeeded, PolicyWrittenMeanwhile.
    """
    reason = required_reason(reason)
    with _one_a_revision(name), acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        before = newest(name)
        if before is None or before.end_reason:
            raise PolicyEnded(
                f'"{name}" was ended by {before.created_by}: {before.end_reason}'
                if before
                else f'There is no policy "{name}" here.'
            )
        _as_expected(name, before, expected)
        if needing := deployed_under(name):
            raise PolicyNeeded(
                f'"{name}" is the policy of {", ".join(needing)}: without it nothing of that could be proposed.'
            )
        policy = _insert(name, before, before.ruleset, reason, actor, now)
        evidence = {"policy": name, "revision": policy.revision, "reason": reason}
        tenant_journal.record(event="policy.ended", actor=actor, evidence=evidence)
        return policy


@contextmanager
def _one_a_revision(name: str) -> Iterator[None]:
    """Around a transaction that writes a revision: of two at once the second is told."""
    try:
        yield
    except IntegrityError as failed:
        if "one_policy_a_revision" not in str(failed):
            raise
        raise PolicyWrittenMeanwhile(
            f'Somebody else has just written "{name}". Look at it again.'
        ) from failed


def _insert(
    name: str, before: Policy | None, rules: RuleSet, end_reason: str, by: Actor, now: datetime
) -> Policy:
    return Policy.objects.create(
        tenant_id=require_scope(),
        name=name,
        revision=before.revision + 1 if before else 1,
        rules=text_of(rules),
        waives_approval=rules.waives_approval,
        quorum=sum(level.quorum for level in rules.levels),
        four_eyes=rules.four_eyes,
        created_at=now,
        created_by=by.name,
        end_reason=end_reason,
    )


def read_rules(value: Mapping[str, Any]) -> RuleSet:
    """A rule set from plain values, or BadPolicy with the first fault as a sentence."""
    found = faults_in(value)
    if isinstance(found, RuleSet):
        return found
    raise BadPolicy(found[0].words)


def text_of(rules: RuleSet) -> str:
    """The canonical text that is stored: every rule in full, those that have their defaults too."""
    return canonical.write(rules.model_dump(mode="json"))


def check_rules(name: str, rules: RuleSet) -> None:
    """Whether the scope's tenant can have this policy: BadPolicy where it names somebody or a group that is not there."""
    if not name.strip() or name != name.strip() or len(name) > 100 or not name.isprintable():
        raise BadPolicy("Give the policy a name of up to 100 characters, on one line.")
    people = {limit.person for limit in rules.limits} | {step.person for step in rules.escalation}
    members = {m.handle for m in directory().members.values()}
    for handle in sorted(people - members - {""}):
        raise BadPolicy(f'There is nobody called "{handle}" in this organisation.')
    groups = groups_in(rules)
    known = set(Group.objects.filter(name__in=groups, ended_at__isnull=True).values_list("name", flat=True))
    for group in sorted(groups - known):
        raise BadPolicy(f'There is no group "{group}" in this organisation. Make it first.')


def _as_expected(name: str, before: Policy | None, expected: int | None) -> None:
    if expected is None or expected == (before.revision if before else 0):
        return
    if before is None:
        raise PolicyWrittenMeanwhile(f'There is no policy "{name}" any more.')
    raise PolicyWrittenMeanwhile(
        f'{before.created_by} wrote revision {before.revision} of "{name}" while you were looking at'
        f" {f'revision {expected}' if expected else 'none'}."
    )
