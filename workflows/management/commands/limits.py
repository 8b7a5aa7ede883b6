"""Show the limits that are set, or set one: of the whole installation, or of an organisation in an admin's name."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from access.management import named
from access.models import Person, Tenant
from access.refusals import Refused
from access.tenancy import reading
from workflows.actions.limits import Terms, drop_limit, set_limit, set_shared_limit
from workflows.limit_figures import LimitStanding, standings


class Command(BaseCommand):
    help = __doc__

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", help="the limit, as steps name it; without it all are shown")
        parser.add_argument(
            "--tenant", metavar="SLUG", help="the organisation; without it the whole installation"
        )
        parser.add_argument(
            "--as", dest="admin", metavar="NAME", help="the admin who sets an organisation's limit"
        )
        parser.add_argument("--concurrency", type=int, metavar="N")
        parser.add_argument("--requests-per-minute", type=int, metavar="N")
        parser.add_argument("--tokens-per-minute", type=int, metavar="N")
        parser.add_argument("--cost-per-day", metavar="AMOUNT")
        parser.add_argument("--drop", action="store_true", help="take the limit away")

    def handle(self, *args: Any, **given: Any) -> None:
        if given["name"] is None:
            self._show(given["tenant"])
            return
        terms = None if given["drop"] else _terms(given)
        try:
            if given["tenant"] is None:
                changed = set_shared_limit(
                    name=given["name"], terms=terms, by="a command on the host", now=timezone.now()
                )
                self.stdout.write("Set." if changed else "Nothing changed.")
            else:
                self._set(named.organisation(given["tenant"]), given["name"], terms, given["admin"])
        except Refused as refused:
            raise CommandError(str(refused)) from refused

    def _set(self, tenant: Tenant, name: str, terms: Terms | None, admin: str | None) -> None:
        person = Person.objects.filter(username=admin or "").first()
        if person is None:
            raise CommandError(f"Say with --as which admin of {tenant.slug} sets it.")
        if terms is None:
            drop_limit(tenant_id=tenant.pk, name=name, person_id=person.pk)
        else:
            set_limit(tenant_id=tenant.pk, name=name, terms=terms, person_id=person.pk, now=timezone.now())
        self.stdout.write("Set.")

    def _show(self, slug: str | None) -> None:
        for tenant in [named.organisation(slug)] if slug else Tenant.objects.order_by("slug"):
            with reading(tenant.pk):
                found = standings(timezone.now())
            self.stdout.write(f"{tenant.slug}:" if found else f"{tenant.slug}: no limits")
            for standing in found:
                self.stdout.write(f"  {_line(standing)}")


def _terms(given: dict[str, Any]) -> Terms:
    try:
        cost = None if given["cost_per_day"] is None else Decimal(given["cost_per_day"])
    except InvalidOperation as error:
        raise CommandError("--cost-per-day is an amount, such as 25.00.") from error
    if cost is not None and not cost.is_finite():
        raise CommandError("--cost-per-day is an amount, such as 25.00.")
    return Terms(given["concurrency"], given["requests_per_minute"], given["tokens_per_minute"], cost)


def _line(standing: LimitStanding) -> str:
    terms = standing.terms
    if terms is None:
        return f"{standing.name}: not set; named by {', '.join(standing.used_by)}"
    allowed = [
        f"{value} {words}"
        for value, words in (
            (terms.concurrency, "at once"),
            (terms.requests_per_minute, "requests a minute"),
            (terms.tokens_per_minute, "tokens a minute"),
            (terms.cost_per_day and f"{terms.cost_per_day.normalize():f}", "a day"),
        )
        if value is not None
    ]
    shared = " (whole installation)" if standing.shared else ""
    closed = f"; closed: {standing.closed_why}" if standing.closed_why else ""
    return f"{standing.name}{shared}: {', '.join(allowed)}; {standing.running} running, {standing.waiting} waiting{closed}"
