"""`manage.py write_terms TENANT FILE --as NAME`: what a package's workflows need in an organisation."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from access.management import named
from access.refusals import Refused
from dispatch.actions.write_terms import write_terms
from dispatch.terms import BadTerms, read_terms


class Command(BaseCommand):
    help = (
        "Write the approval policies and receivers that a file of terms names. A repeat writes what is new."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("tenant", help="the organisation, as its addresses name it")
        parser.add_argument("file", type=Path, help="the file, such as counterfoil.toml of a package")
        parser.add_argument("--as", dest="handle", required=True, help="the admin who writes them")
        parser.add_argument(
            "--url", action="append", default=[], metavar="RECEIVER=ADDRESS",
            help="the address of a receiver here, where it is another than the file's",
        )  # fmt: skip

    def handle(
        self, *args: Any, tenant: str, file: Path, handle: str, url: list[str], **options: Any
    ) -> None:
        try:
            written = write_terms(
                tenant_id=named.organisation(tenant).pk,
                terms=read_terms(file),
                addresses=_addresses(url),
                person_id=named.person(handle).pk,
                now=timezone.now(),
            )
        except (BadTerms, Refused) as refused:
            raise CommandError(str(refused)) from refused
        for one in written:
            self.stdout.write(one.sentence)
        if not written:
            self.stdout.write(f"{file} names no policies and no receivers.")


def _addresses(given: list[str]) -> dict[str, str]:
    pairs = [one.partition("=") for one in given]
    for name, sign, address in pairs:
        if not (name and sign and address):
            raise CommandError(f"--url {name}{sign}{address}: write it as receiver=https://host/path.")
    return {name: address for name, _, address in pairs}
