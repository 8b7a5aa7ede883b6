"""`manage.py bulk`: one thing done to many jobs or items, from a terminal. Shows what it would be unless it is told --yes."""

from __future__ import annotations

import os
import socket
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.management import named
from access.models import Tenant
from access.refusals import Refused
from access.tenancy import reading
from reconciliation.actions.bulk import Planned, confirm_bulk, plan_bulk
from reconciliation.bulk import working
from reconciliation.bulk.pages import BulkPage, bulk_page
from reconciliation.bulk.selecting import Filters
from reconciliation.bulk.verbs import TERMS, BulkVerb
from reconciliation.models import Bulk, BulkEntry, BulkState, EntryState

SHOWN = 20
OTHERS_SECONDS = 0.1
"""Until it is looked again, where a worker does a turn just now."""


class Command(BaseCommand):
    help = (
        "Do one thing to many jobs or items: "
        + "; ".join(f"{verb} ({terms.title.lower()})" for verb, terms in TERMS.items())
        + ". Without --yes it only shows what that would be."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.formatter_class = RawDescriptionHelpFormatter
        parser.add_argument("verb", choices=[v.value for v in BulkVerb])
        parser.add_argument("--organisation", required=True, help="its name in addresses")
        parser.add_argument(
            "--as", dest="person", required=True, help="who does it: a handle; rights are theirs"
        )
        parser.add_argument("--workflow", default="")
        parser.add_argument("--job", default="", help="such as JOB-12")
        parser.add_argument("--step", default="", help="its name as the workflow writes it")
        parser.add_argument("--error", default="", help="class of the last error, or how the attempt ended")
        parser.add_argument("--state", default="")
        parser.add_argument("--kind", default="", help="of a case about it")
        parser.add_argument("--receiver", default="", help="of cases: its name")
        parser.add_argument("--incident", default="", help="of cases: such as INC-3")
        parser.add_argument(
            "--since", default="", help="when it stopped, failed or (other jobs) was submitted"
        )
        parser.add_argument("--until", default="")
        parser.add_argument("--attempts", type=int, default=3, help="for each item, 1 to 20 (default 3)")
        parser.add_argument("--reason", default="", help="every one of them keeps it")
        parser.add_argument("--yes", action="store_true", help="do it; without, only show what it would be")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant, person = named.organisation(options["organisation"]), named.person(options["person"])
        try:
            planned = plan_bulk(
                tenant_id=tenant.pk,
                person_id=person.pk,
                verb=options["verb"],
                filters=_filters(options, tenant),
                now=timezone.now(),
            )
            self._show(tenant, planned)
            if not options["yes"]:
                self.stdout.write("Nothing was done. Say --yes and --reason to do it.")
                return
            confirm_bulk(
                tenant_id=tenant.pk,
                bulk_id=planned.bulk_id,
                person_id=person.pk,
                reason=options["reason"],
                attempts=options["attempts"],
                now=timezone.now(),
            )
        except Refused as refused:
            raise CommandError(str(refused)) from refused
        self._work(tenant, planned)

    def _show(self, tenant: Tenant, planned: Planned) -> None:
        page = _page(tenant, planned)
        self.stdout.write(f"{page.terms.title}: {planned.total:,} {page.terms.things}.")
        for group in page.groups:
            self.stdout.write(f"  {group.count:>7,}  {', '.join(filter(None, (group.where, group.what)))}")
        for row in page.rows[:SHOWN]:
            self.stdout.write(f"  {row.entry.job.label}  {row.step or row.entry.job.title}")
        if planned.total > SHOWN:
            self.stdout.write(f"  … and {planned.total - SHOWN:,} more")

    def _work(self, tenant: Tenant, planned: Planned) -> None:
        """Do it here, in turns with whatever workers there are; if this process ends early they go on."""
        name = f"command-{socket.gethostname()}-{os.getpid()}"[:200]
        while _is_running(tenant, planned):
            if not working.turn(tenant.pk, planned.bulk_id, name):
                time.sleep(OTHERS_SECONDS)
        page = _page(tenant, planned)
        self._tell_what_was_not_done(tenant, planned)
        self.stdout.write(", ".join(f"{n:,} {state}" for state, n in page.results.items() if n) + ".")
        if page.results[EntryState.DONE] != planned.total:
            raise CommandError("Not all of them were done; each of the others is named above.", returncode=1)

    def _tell_what_was_not_done(self, tenant: Tenant, planned: Planned) -> None:
        with reading(tenant.pk):
            others = BulkEntry.objects.filter(bulk=planned.bulk_id).exclude(state=EntryState.DONE)
            for entry in others.select_related("job", "item__stage").order_by("pk").iterator():
                item = f", {entry.item.stage.name} {entry.item.key}" if entry.item is not None else ""
                item = f", RC-{entry.case_id:04d}" if entry.case_id is not None else item
                self.stdout.write(f"  {entry.job.label}{item}: {entry.state}: {entry.why}")


def _is_running(tenant: Tenant, planned: Planned) -> bool:
    with reading(tenant.pk):
        return Bulk.objects.filter(pk=planned.bulk_id, state=BulkState.RUNNING).exists()


def _page(tenant: Tenant, planned: Planned) -> BulkPage:
    with reading(tenant.pk):
        return bulk_page(planned.bulk_id, frozenset())


def _filters(options: dict[str, Any], tenant: Tenant) -> Filters:
    return Filters.read({**options, **{n: _with_zone(options[n], tenant) for n in ("since", "until")}})


def _with_zone(text: str, tenant: Tenant) -> str:
    """A time without a zone is meant in the organisation's own; what is no time is refused later, by name."""
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return text
    return (at if at.tzinfo else at.replace(tzinfo=ZoneInfo(tenant.time_zone))).isoformat()
