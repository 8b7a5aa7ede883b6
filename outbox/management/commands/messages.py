"""`manage.py messages`: what was told outside, to whom, and having it tried again."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from access.management import named
from access.models import Person, Tenant
from access.refusals import Refused
from access.tenancy import reading
from outbox import queries
from outbox.actions.messages import send_again
from outbox.models import Message


class Command(BaseCommand):
    help = "Lists an organisation's messages, newest first, or has some tried again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("organisation", help="its name in addresses")
        parser.add_argument("--show", choices=("waiting", "given-up"), help="only those")
        parser.add_argument("--before", type=int, default=0, metavar="ID", help="only older ones")
        parser.add_argument("--send-again", nargs="+", metavar="ID", help="ids of messages, or all-given-up")
        parser.add_argument("--as", dest="handle", help="the operator or admin who asks for it")

    def handle(self, *args: Any, **options: Any) -> None:
        tenant = named.organisation(options["organisation"])
        if options["send_again"]:
            self._send_again(tenant, options)
        else:
            self._list(tenant, options)

    def _list(self, tenant: Tenant, options: dict[str, Any]) -> None:
        with reading(tenant.pk):
            page = queries.messages(which=options["show"] or "", before=options["before"], now=timezone.now())
        for row in page.rows:
            m = row.message
            why = f" ({m.last_error})" if m.last_error else ""
            self.stdout.write(
                f"{m.pk}  {m.created_at:%Y-%m-%d %H:%M}  {row.words.lower()}  {m.kind} to {row.recipient}: "
                f"{row.title}{why}"
            )
        if page.older:
            self.stdout.write(f"Older ones: --before {page.older}")

    def _send_again(self, tenant: Tenant, options: dict[str, Any]) -> None:
        person = Person.objects.filter(username=options["handle"] or "").first()
        if person is None:
            raise CommandError("Name with --as the operator or admin who asks for it.")
        left = 0
        for message_id in _ids(tenant, options["send_again"]):
            try:
                send_again(
                    tenant_id=tenant.pk, message_id=message_id, person_id=person.pk, now=timezone.now()
                )
            except Refused as refused:
                left += 1
                self.stderr.write(f"{message_id}: {refused}")
            else:
                self.stdout.write(f"{message_id}: it is tried now.")
        if left:
            raise CommandError(f"{left} not sent again.")


def _ids(tenant: Tenant, asked: list[str]) -> list[int]:
    if asked == ["all-given-up"]:
        with reading(tenant.pk):
            given_up = Message.objects.filter(given_up_at__isnull=False)
            return list(given_up.order_by("pk").values_list("pk", flat=True))
    if not all(text.isascii() and text.isdigit() and len(text) < 19 for text in asked):
        raise CommandError("Messages are named by their ids, or as all-given-up.")
    return [int(text) for text in asked]
