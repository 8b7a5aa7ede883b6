"""Groups that policies ask for: an admin makes them, puts people in and out, renames and ends them.

All of it is in the tenant's journal. What a group is called stands in policies, so that it keeps its name, and is not
ended, as long as a room above says that something needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from django.db import IntegrityError

from access import authority, tenant_journal
from access.locks import lock_group
from access.models import Group, GroupMember, Person
from access.refusals import Conflict, NotFound, Unprocessable
from access.roles import Role
from access.tenancy import acting

LONGEST_NAME = 80
LONGEST_REASON = 1000
Needs = Callable[[str], Iterable[str]]
_needs: list[Needs] = []


class BadGroupName(Unprocessable):
    """A name that cannot be a group's."""


class GroupExists(Conflict):
    """There is a group of that name."""


class NoSuchGroup(NotFound):
    """There is no such group in this tenant."""


class GroupNeeded(Conflict):
    """Something names the group; the message says what."""


class GroupReasonMissing(Unprocessable):
    """Renaming or ending a group needs a reason that can be kept."""


class NoSuchMember(Unprocessable):
    """The person holds no role in this tenant, so they can be in none of its groups."""


def needs_groups(look: Needs) -> None:
    """A room above says what needs a group of this name, in the scope of its tenant: while anything does, it stays."""
    _needs.append(look)


def make_group(*, tenant_id: int, name: str, person_id: int) -> int:
    """Make an empty group and return its id. Admins only.

    Locks nothing; of two who make the same one is GroupExists, which is also what a repeat gets. Raises NotPermitted,
    BadGroupName.
    """
    name = _name(name)
    try:
        with acting(tenant_id):
            actor = authority.require(person_id, Role.ADMIN)
            group = Group.objects.create(tenant_id=tenant_id, name=name)
            tenant_journal.record(event="group.made", actor=actor, evidence={"group": group.pk, "name": name})
            return group.pk
    except IntegrityError as failed:
        if "one_group_a_name" not in str(failed):
            raise
        raise GroupExists(f'There is a group "{name}" already.') from failed


def add_to_group(*, tenant_id: int, group_id: int, member_id: int, person_id: int) -> bool:
    """Put a person into a group; False where they are in it already. Admins only.

    Locks the group. Raises NotPermitted, NoSuchGroup, NoSuchMember.
    """
    try:
        with acting(tenant_id):
            actor = authority.require(person_id, Role.ADMIN)
            group, member = _locked(group_id), _member(member_id)
            if GroupMember.objects.filter(group=group, person=member, ended_at__isnull=True).exists():
                return False
            GroupMember.objects.create(tenant_id=tenant_id, group=group, person=member)
            evidence = {"group": group.pk, "name": group.name, "person": member.username}
            tenant_journal.record(event="group.member_added", actor=actor, evidence=evidence)
            return True
    except IntegrityError as failed:
        if "one_live_member_a_group" not in str(failed):
            raise
        return False


def remove_from_group(
    *, tenant_id: int, group_id: int, member_id: int, person_id: int, now: datetime
) -> bool:
    """Take a person out of a group; False where they are not in it. Admins only.

    What they signed as its member stops counting where it is not sent yet. Locks the one row that it ends. Raises
    NotPermitted, NoSuchGroup.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        group = _group(group_id)
        live = GroupMember.objects.filter(group=group, person_id=member_id, ended_at__isnull=True)
        if not live.update(ended_at=now):
            return False
        handle = Person.objects.values_list("username", flat=True).get(pk=member_id)
        evidence = {"group": group.pk, "name": group.name, "person": handle}
        tenant_journal.record(event="group.member_removed", actor=actor, evidence=evidence)
        return True


def rename_group(*, tenant_id: int, group_id: int, name: str, reason: str, person_id: int) -> None:
    """Give a group another name; its people stay in it. Admins only, with a reason.

    Refused while a policy in force, or one that an open proposal was asked under, names it. Locks the group. Raises
    NotPermitted, NoSuchGroup, BadGroupName, GroupReasonMissing, GroupNeeded, GroupExists (a repeat too).
    """
    name, reason = _name(name), _reason(reason)
    try:
        with acting(tenant_id):
            group = _locked(group_id)
            actor = authority.require(person_id, Role.ADMIN)
            _not_needed(group, "renamed")
            if group.name == name:
                raise GroupExists(f'The group is called "{name}" already.')
            Group.objects.filter(pk=group.pk).update(name=name)
            evidence = {"group": group.pk, "name": name, "before": group.name, "reason": reason}
            tenant_journal.record(event="group.renamed", actor=actor, evidence=evidence)
    except IntegrityError as failed:
        if "one_group_a_name" not in str(failed):
            raise
        raise GroupExists(f'There is a group "{name}" already.') from failed


def end_group(*, tenant_id: int, group_id: int, reason: str, person_id: int, now: datetime) -> None:
    """End a group: nobody is in it any more, and its name is free. Admins only, with a reason.

    Refused as renaming is. Locks the group; a repeat is NoSuchGroup. Raises NotPermitted, GroupReasonMissing, GroupNeeded.
    """
    reason = _reason(reason)
    with acting(tenant_id):
        group = _locked(group_id)
        actor = authority.require(person_id, Role.ADMIN)
        _not_needed(group, "ended")
        people = GroupMember.objects.filter(group=group, ended_at__isnull=True)
        handles = list(people.order_by("person__username").values_list("person__username", flat=True))
        people.update(ended_at=now)
        Group.objects.filter(pk=group.pk).update(ended_at=now, end_by=actor.name, end_reason=reason)
        evidence = {"group": group.pk, "name": group.name, "people": handles, "reason": reason}
        tenant_journal.record(event="group.ended", actor=actor, evidence=evidence)


def what_needs(group: str) -> list[str]:
    """What names a group, so that it is neither renamed nor ended."""
    return [needing for look in _needs for needing in look(group)]


def _not_needed(group: Group, done: str) -> None:
    if needing := what_needs(group.name):
        raise GroupNeeded(f'"{group.name}" cannot be {done}. It is named by {", ".join(needing)}.')


def _locked(group_id: int) -> Group:
    found = lock_group(group_id)
    if found is None:
        raise NoSuchGroup("There is no such group here.")
    return found


def _group(group_id: int) -> Group:
    found = Group.objects.filter(pk=group_id).first()
    if found is None:
        raise NoSuchGroup("There is no such group here.")
    return found


def _member(person_id: int) -> Person:
    if not authority.roles_of(person_id):
        raise NoSuchMember("Only people who hold a role in this organisation can be in its groups.")
    return Person.objects.get(pk=person_id)


def _name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadGroupName(f"Give the group a name of up to {LONGEST_NAME} characters, on one line.")
    return name


def _reason(reason: str) -> str:
    reason = reason.strip()
    if not reason or len(reason) > LONGEST_REASON or "\0" in reason:
        raise GroupReasonMissing(f"Say why, in up to {LONGEST_REASON:,} characters.")
    return reason
