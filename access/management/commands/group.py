"""`manage.py group`: the groups of an organisation that its approval policies can ask for."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.actions.groups import add_to_group, end_group, make_group, remove_from_group, rename_group
from access.doors import find_tenant
from access.models import Group, GroupMember, Person, Tenant
from access.refusals import Refused
from access.tenancy import reading


class Command(BaseCommand):
    help = "Make a group, put people in, take them out, rename it, end it, list all."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, help_text in (
            ("make", "a new group, empty"),
            ("add", "put somebody into a group"),
            ("remove", "take somebody out of a group"),
            ("rename", "another name for a group that no policy names"),
            ("end", "an end to a group that no policy names"),
            ("list", "every group with its people"),
        ):
            sub = verbs.add_parser(verb, help=help_text)
            sub.add_argument("tenant", help="the organisation, as it stands in addresses")
            if verb != "list":
                sub.add_argument("group", help="the group's name")
                sub.add_argument("--as", dest="handle", required=True, help="the admin who does it")
            if verb in ("add", "remove"):
                sub.add_argument("person", help="whom, by handle")
            if verb == "rename":
                sub.add_argument("name", help="what it is called from now on")
            if verb in ("rename", "end"):
                sub.add_argument("--reason", required=True, help="why, kept in the journal")

    def handle(self, *args: Any, verb: str, tenant: str, **given: Any) -> None:
        found = find_tenant(tenant)
        if found is None:
            raise CommandError(f"There is no organisation {tenant}.")
        if verb == "list":
            self._list(found)
            return
        try:
            self.stdout.write(self._do(verb, found, given))
        except Refused as refused:
            raise CommandError(str(refused)) from refused

    def _do(self, verb: str, tenant: Tenant, given: dict[str, Any]) -> str:
        name, who = given["group"], {"tenant_id": tenant.pk, "person_id": _person(given["handle"])}
        if verb == "make":
            make_group(name=name, **who)
            return f"{name} is made, and empty."
        with reading(tenant.pk):
            group = Group.objects.filter(name=name, ended_at__isnull=True).first()
        if group is None:
            raise CommandError(f"There is no group {name} in {tenant.slug}.")
        if verb == "rename":
            rename_group(group_id=group.pk, name=given["name"], reason=given["reason"], **who)
            return f"{name} is called {given['name']} from now on."
        if verb == "end":
            end_group(group_id=group.pk, reason=given["reason"], now=timezone.now(), **who)
            return f"{name} is ended."
        place = {"group_id": group.pk, "member_id": _person(given["person"]), **who}
        if verb == "add":
            added = add_to_group(**place)
            return (
                f"{given['person']} is in {name}." if added else f"{given['person']} was in {name} already."
            )
        removed = remove_from_group(now=timezone.now(), **place)
        return f"{given['person']} is out of {name}." if removed else f"{given['person']} was not in {name}."

    def _list(self, tenant: Tenant) -> None:
        with reading(tenant.pk):
            rows = GroupMember.objects.filter(ended_at__isnull=True).order_by("person__username")
            members: dict[int, list[str]] = {}
            for group_id, handle in rows.values_list("group_id", "person__username"):
                members.setdefault(group_id, []).append(handle)
            groups = list(Group.objects.filter(ended_at__isnull=True).order_by("name"))
        for group in groups:
            self.stdout.write(f"{group.name}: {', '.join(members.get(group.pk, [])) or 'nobody'}")
        if not groups:
            self.stdout.write(f"{tenant.slug} has no group.")


def _person(handle: str) -> int:
    found = Person.objects.filter(username=handle).values_list("pk", flat=True).first()
    if found is None:
        raise CommandError(f"There is nobody called {handle} here.")
    return found
