"""`manage.py faulttable`: what every fault of a receiver comes to under every kind of contract."""

from __future__ import annotations

import dataclasses
import json
import logging
import signal
import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from examples.demos.fault_table.faults import FAULTS
from examples.demos.fault_table.kinds import KINDS
from examples.demos.fault_table.rows import Row
from examples.demos.fault_table.running import run
from examples.demos.installation import NotSeen
from examples.demos.telling import Teller

HEADS = ("what the receiver does", "how each send ended", "asked", "job", "effects", "requests")


class Command(BaseCommand):
    help = "Bring about every fault under every kind of contract, with real processes. Exit code 0 only if every promise held."

    def add_arguments(self, parser: ArgumentParser) -> None:
        faults, kinds = [f.name for f in FAULTS], [k.name for k in KINDS]
        parser.add_argument("--fault", action="append", choices=faults, help="only this one; may be repeated")
        parser.add_argument("--contract", action="append", choices=kinds, help="likewise")
        parser.add_argument("--json", action="store_true", help="print the rows as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _terminated)
        logging.getLogger().setLevel(logging.WARNING)
        teller = Teller(sys.stderr)
        faults = [f for f in FAULTS if f.name in (options["fault"] or [f.name])]
        kinds = [k for k in KINDS if k.name in (options["contract"] or [k.name])]
        try:
            rows = run(teller, faults, kinds)
        except NotSeen as wrong:
            raise CommandError(str(wrong)) from wrong
        if options["json"]:
            self.stdout.write(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
        else:
            for kind in kinds:
                self.stdout.write(f"\n{kind.title}\n" + _table([r for r in rows if r.kind == kind.name]))
        judge(rows)
        teller.step(f"{len(faults)} faults by {len(kinds)} kinds of contracts: every promise held")


def judge(rows: Sequence[Row]) -> None:
    """Raises CommandError where a row breaks a promise."""
    broken = [f"{row.kind}, {row.title}: {row.broken}." for row in rows if row.broken]
    if broken:
        raise CommandError(f"{len(broken)} of {len(rows)} rows break a promise:\n" + "\n".join(broken))


def _table(rows: Sequence[Row]) -> str:
    lines = [HEADS, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _cells(row: Row) -> tuple[str, ...]:
    job = f"{row.state} !" if row.broken else row.state
    return row.title, ", ".join(row.sent), str(row.lookups), job, str(row.effects), str(row.requests)


def _terminated(_signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)
