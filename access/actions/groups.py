"""Groups that policies ask for: an admin makes them, and puts people in and out. All of it is in the tenant's journal."""

from __future__ import annotations

from datetime import datetime

from django.db import IntegrityError

from access import authority, tenant_journal
from access.models import Group, GroupMember, Person
from access.refusals import Conflict, NotFound, Unprocessable
from access.roles import Role
from access.tenancy import acting

LONGEST_NAME = 80


class BadGroupName(Unprocessable):
    """A name that cannot be a group's."""


class GroupExists(Conflict):
    """There is a group of that name."""


class NoSuchGroup(NotFound):
    """There is no such group in this tenant."""


class NoSuchMember(Unprocessable):
    """The person holds no role in this tenant, so they can be in none of its groups."""


def make_group(*, tenant_id: int, name: str, person_id: int) -> int:
    """Make an empty group and return its id. Admins only.

    Locks nothing; of two who make the same one is GroupExists, which is also what a repeat gets. Raises NotPermitted,
    BadGroupName.
    """
    name = name.strip()
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise BadGroupName(f"Give the group a name of up to {LONGEST_NAME} characters, on one line.")
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

    Locks nothing: of two at once the second finds the first's row. Raises NotPermitted, NoSuchGroup, NoSuchMember.
    """
    try:
        with acting(tenant_id):
            actor = authority.require(person_id, Role.ADMIN)
            group, member = _group(group_id), _member(member_id)
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


def _group(group_id: int) -> Group:
    found = Group.objects.filter(pk=group_id).first()
    if found is None:
        raise NoSuchGroup("There is no such group here.")
    return found


def _member(person_id: int) -> Person:
    if not authority.roles_of(person_id):
        raise NoSuchMember("Only people who hold a role in this organisation can be in its groups.")
    return Person.objects.get(pk=person_id)
