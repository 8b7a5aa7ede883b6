"""`manage.py tenant revoke SLUG --reason WHY` and `manage.py tenant restore SLUG`: stop every send of an organisation."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from access.actions.tenants import restore_tenant, revoke_tenant
from access.management import named
from access.refusals import Refused


class Command(BaseCommand):
    help = "Revoke an organisation, so that nothing is sent for it until it is restored, or restore it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["revoke", "restore"])
        parser.add_argument("tenant", help="the organisation, as its addresses name it")
        parser.add_argument("--reason", default="", help="why it is revoked, kept in its journal")

    def handle(self, *args: Any, what: str, tenant: str, reason: str, **options: Any) -> None:
        tenant_id = named.organisation(tenant).pk
        try:
            if what == "revoke":
                revoke_tenant(tenant_id=tenant_id, reason=reason, now=timezone.now())
            else:
                restore_tenant(tenant_id=tenant_id, now=timezone.now())
        except Refused as refused:
            raise CommandError(str(refused)) from refused
        said = (
            "revoked: nothing is sent for it"
            if what == "revoke"
            else "restored: what waited is sent after its checks"
        )
        self.stdout.write(f"{tenant} is {said}.")
