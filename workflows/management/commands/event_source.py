"""`manage.py event_source`: the systems outside that may send signed events to an organisation, and their secrets."""

from __future__ import annotations

from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access import signatures
from access.management import named
from access.models import Tenant
from access.refusals import Refused
from access.tenancy import reading
from workflows import sources
from workflows.actions.event_sources import add_source, end_source, rotate_source
from workflows.models import EventSource


class Command(BaseCommand):
    help = (
        "Who may send signed events to an organisation: add a source, give it a new secret, end it, list all."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        for verb, told in (
            ("add", "let a system send events"),
            ("rotate", "check its signatures with another secret"),
            ("end", "take nothing more from it"),
            ("list", "every source of the organisation"),
        ):
            sub = verbs.add_parser(verb, help=told)
            sub.add_argument("tenant", help="the organisation, as it stands in addresses")
            if verb != "list":
                sub.add_argument("name", help="the source, as it stands in its address")
                sub.add_argument("--by", required=True, metavar="HANDLE", help="the admin who does it")
            if verb in ("add", "rotate"):
                sub.add_argument(
                    "--secret", required=True, metavar="REFERENCE", help=f"{sources.SECRETS.forms}"
                )
            if verb == "rotate":
                sub.add_argument(
                    "--grace",
                    type=float,
                    default=24.0,
                    metavar="HOURS",
                    help="the one before holds for so long (24)",
                )

    def handle(self, *args: Any, verb: str, tenant: str, **options: Any) -> None:
        found = named.organisation(tenant)
        if verb == "list":
            self._list(found)
            return
        try:
            self._do(verb, found, options)
        except Refused as refused:
            raise CommandError(str(refused)) from refused
        self._tell(verb, found, options)

    def _do(self, verb: str, tenant: Tenant, options: dict[str, Any]) -> None:
        person = named.person(options["by"])
        who: dict[str, Any] = {
            "tenant_id": tenant.pk, "name": options["name"], "person_id": person.pk, "now": timezone.now(),
        }  # fmt: skip
        if verb == "add":
            add_source(secret_reference=options["secret"], **who)
        elif verb == "rotate":
            grace = timedelta(hours=options["grace"])
            rotate_source(secret_reference=options["secret"], grace=grace, **who)
        else:
            end_source(**who)

    def _tell(self, verb: str, tenant: Tenant, options: dict[str, Any]) -> None:
        name = options["name"]
        if verb == "end":
            self.stdout.write(f"Nothing more is taken from {name}.")
            return
        self.stdout.write(f"{name} sends to /api/v1/t/{tenant.slug}/events/{name}.")
        fault = sources.fault_of(options["secret"])
        if fault:
            self.stdout.write(
                f"{fault}\nGive the sender this one, and put it there for every web process. It is kept nowhere else:\n"
                f"{signatures.make_secret()}"
            )

    def _list(self, tenant: Tenant) -> None:
        with reading(tenant.pk):
            rows = list(EventSource.objects.order_by("name"))
        for source in rows:
            ended = " ended" if source.ended_at else ""
            self.stdout.write(f"{source.name}{ended}: {source.secret_reference}")
        if not rows:
            self.stdout.write(f"{tenant.slug} has no source of events.")
