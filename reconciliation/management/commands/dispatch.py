"""`manage.py dispatch`: whether anything is sent since a backup was restored, and opening it again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from access.management import named
from access.models import Tenant
from access.refusals import Refused
from access.switches import switches_of, was_copied
from access.tenancy import reading
from dispatch.after_restore import over_at
from dispatch.restoring import enter_restore_mode
from reconciliation.actions.opening import open_dispatch
from reconciliation.actions.owning import assign
from reconciliation.restored import left_by, unowned_cases
from reconciliation.words import clock


class Command(BaseCommand):
    help = "Say whether dispatch is shut since a backup was restored, shut it for all, or open it for an organisation."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verbs.add_parser("status", help="of every organisation, and what a restore has left open")
        shut = verbs.add_parser(
            "shut", help="for every organisation, where files were put back instead of a dump"
        )
        shut.add_argument("--reason", default="", help="kept in the journal of each")
        opened = verbs.add_parser("open", help="let an organisation's sends go on")
        opened.add_argument("organisation", help="as its addresses name it")
        opened.add_argument("--as", dest="person", required=True, help="who opens it: a handle")
        opened.add_argument("--reason", default="", help="kept in its journal")
        opened.add_argument(
            "--hand-over", metavar="HANDLE", help="first assign what is nobody's to this person"
        )

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        if verb == "status":
            self._status()
        elif verb == "shut":
            self._shut(options["reason"].strip())
        else:
            try:
                self._open(
                    **{name: options[name] for name in ("organisation", "person", "reason", "hand_over")}
                )
            except Refused as refused:
                raise CommandError(str(refused)) from refused

    def _status(self) -> None:
        if was_copied():
            self.stdout.write(
                "These rows were put back from a dump. Nothing is sent: start the workers, or migrate."
            )
        for tenant in Tenant.objects.order_by("slug"):
            with reading(tenant.pk):
                self.stdout.write(f"{tenant.slug}: {_standing(tenant)}")

    def _shut(self, reason: str) -> None:
        if not reason:
            raise CommandError("Say why: whoever finds jobs waiting has only your reason.")
        kept = enter_restore_mode(reason)
        self.stdout.write(
            f"Dispatch is shut. Organisations: {kept.organisations:,}. Operations that may have been sent: {kept.quarantined:,}."
            f" Jobs held for a person: {kept.held:,}."
        )

    def _open(self, organisation: str, person: str, reason: str, hand_over: str | None) -> None:
        tenant, who = named.organisation(organisation), named.person(person)
        if hand_over is not None:
            self._hand_over(tenant, who.pk, named.person(hand_over).pk)
        left = open_dispatch(tenant_id=tenant.pk, person_id=who.pk, reason=reason, now=timezone.now())
        self.stdout.write(
            f"Dispatch of {organisation} is open: what waited is sent after its checks. Without an outcome:"
            f" {left.without_outcome:,} operations. Held: {left.held:,} jobs."
        )

    def _hand_over(self, tenant: Tenant, person_id: int, assignee_id: int) -> None:
        with reading(tenant.pk):
            restored = switches_of(tenant.pk).restored
            cases = [] if restored is None else list(unowned_cases(restored).values_list("pk", "version"))
        for case_id, version in cases:
            assign(
                tenant_id=tenant.pk,
                case_id=case_id,
                person_id=person_id,
                version=version,
                assignee_id=assignee_id,
                now=timezone.now(),
            )


def _standing(tenant: Tenant) -> str:
    restored = switches_of(tenant.pk).restored
    if restored is None:
        return "open"
    left = left_by(restored)
    two = clock(over_at(restored), tenant.pk)
    rest = (
        f"operations without an outcome: {left.without_outcome:,}, of them nobody's: {left.nobodys:,}; jobs held: {left.held:,};"
        f" two people sign what is proposed until {two}"
    )
    end = clock(restored.known_until, tenant.pk)
    if restored.shut_at is None:
        return f"open, restored from a backup that ends at {end}; {rest}"
    return f"shut, restored from a backup that ends at {end}; {rest}"
