"""`manage.py verify_decision FILE`: what an exported decision proves, without the database."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from access.management.written import one_line
from approvals.management.commands.signing_key import own_public_key
from approvals.proof.signing import BadKey, fingerprint
from approvals.proof.verifying import NotAnExport, verify


class Command(BaseCommand):
    help = (
        "Verify an exported decision from the file alone. Exit code 0 when it proves who decided about which bytes,"
        " 1 when it does not."
    )
    requires_system_checks: tuple[str, ...] = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("file", help='the exported file, or "-" for standard input')
        parser.add_argument(
            "--key",
            default="",
            metavar="PUBLIC_KEY",
            help="the key to trust, 64 hexadecimal digits; without it this installation's own",
        )

    def handle(self, *args: Any, file: str, key: str, **options: Any) -> None:
        trusted = key.strip().lower() or own_public_key()
        try:
            found = verify(_text(file), trusted=trusted)
            self.stdout.write(f"Trusting the key {fingerprint(trusted)}.")
        except NotAnExport as broken:
            raise CommandError(one_line(str(broken))) from broken
        except BadKey as broken:
            raise CommandError(f"--key: {broken}") from broken
        for finding in found.findings:
            self.stdout.write(
                f"{'ok   ' if finding.ok else 'WRONG'} {finding.what}: {one_line(finding.sentence)}."
            )
        if not found.ok:
            raise CommandError("This file proves nothing.")
        self.stdout.write(one_line(found.proves))


def _text(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as unreadable:
        raise CommandError(f"{file} cannot be read: {unreadable}.") from unreadable
