"""`manage.py cost`: what calls to models cost, by organisation."""

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date, timedelta
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.management import named
from access.models import Tenant
from access.tenancy import reading
from workflows import pricing
from workflows.costs import report
from workflows.costs.spent import spending

BY = ("workflow", "route", "day")


class Command(BaseCommand):
    help = "What calls to models cost: kept, failed and refused work apart."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--tenant", metavar="SLUG", help="only this organisation")
        parser.add_argument(
            "--since", type=_day, metavar="DAY", help="from this day on, such as 2026-03-01 (30 days ago)"
        )
        parser.add_argument("--until", type=_day, metavar="DAY", help="up to this day, included (today)")
        parser.add_argument("--by", choices=BY, default="workflow")
        parser.add_argument("--csv", action="store_true", help="by day, workflow and route, exact")
        parser.add_argument("--verify", action="store_true", help="compare the sums with every attempt")

    def handle(
        self, *args: Any, tenant: str | None, since: date | None, until: date | None, by: str, **options: Any
    ) -> None:
        until = until or timezone.now().date() + timedelta(days=1)
        since = since or until - timedelta(days=31)
        if since > until:
            raise CommandError("--since is later than --until.")
        wrong = 0
        for one in _tenants(tenant):
            with reading(one.pk):
                if options["verify"]:
                    wrong += self._verify(one, since, until)
                elif options["csv"]:
                    keys = ("day", "workflow", "route")
                    head, *lines = report.csv_lines(spending(since=since, until=until, by=keys), keys)
                    self._csv(one, head, lines)
                else:
                    self._table(one, since, until, by)
        if wrong:
            raise CommandError(f"The sums of {wrong} organisations are not those of their attempts.")

    def _table(self, tenant: Tenant, since: date, until: date, by: str) -> None:
        lines = spending(since=since, until=until, by=(by,))
        self.stdout.write(f"{tenant.name} ({tenant.slug}), {since} to {until}, {pricing.currency()}")
        for line in report.table(lines, (by,)) if lines else ["Nothing was spent."]:
            self.stdout.write(f"  {line}")

    def _csv(self, tenant: Tenant, head: str, lines: list[str]) -> None:
        if not getattr(self, "_headed", False):
            self.stdout.write(f"organisation,{head}", ending="")
            self._headed = True
        for line in lines:
            self.stdout.write(f"{tenant.slug},{line}", ending="")

    def _verify(self, tenant: Tenant, since: date, until: date) -> bool:
        keys = ("day", "hour", "workflow", "route")
        same = spending(since=since, until=until, by=keys) == spending(
            since=since, until=until, by=keys, anew=True
        )
        self.stdout.write(f"{tenant.slug}: {'equal' if same else 'NOT equal'}")
        return not same


def _tenants(slug: str | None) -> list[Tenant]:
    return [named.organisation(slug)] if slug else list(Tenant.objects.order_by("slug"))


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text} is no day; write it as 2026-03-01") from None
