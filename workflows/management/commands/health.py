"""`manage.py health`: how the machine is, for people and for monitors."""

import json
from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workflows import health


class Command(BaseCommand):
    help = (
        "Say whether workers live, sweep and promote, what has waited too long, and which transactions are old."
        " Exit code 1 when something does not do its work."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="everything as one JSON object")
        parser.add_argument(
            "--sessions-older-than",
            type=float,
            default=health.OLD_SESSION_SECONDS,
            metavar="SECONDS",
            help="from when on an open transaction counts as old",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        found = health.look(older_than=options["sessions_older_than"])
        if options["json"]:
            self.stdout.write(json.dumps({"level": found.level, **asdict(found)}))
        else:
            for check in found.checks:
                advice = f"  {check.advice}" if check.advice else ""
                self.stdout.write(f"{check.level:<5} {check.name}: {check.says}.{advice}")
            for session in found.sessions:
                self.stdout.write(
                    f"      session {session.pid}: {session.who}, {session.state}, {session.age:.0f} s"
                )
        if found.level == "late":
            raise CommandError("Something does not do its work; see above.")
