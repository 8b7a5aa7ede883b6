"""`manage.py demo NAME`: a pipeline's story with its faults, in a database and on ports of its own."""

from __future__ import annotations

import json
import logging
import signal
import sys
from argparse import ArgumentParser
from types import FrameType
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from examples.demos import confirmed_later, documents, enrichment, expense_policy, vendor_onboarding
from examples.demos.installation import NotSeen, installation
from examples.demos.telling import Teller

DEMOS = {
    "vendor-onboarding": vendor_onboarding,
    "expense-policy": expense_policy,
    "enrichment": enrichment,
    "documents": documents,
    "confirmed-later": confirmed_later,
}


class Command(BaseCommand):
    help = "Play a pipeline's story: processes are really killed, answers really lost. Exit code 0 only if the promise held."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", choices=DEMOS)
        parser.add_argument("--contract", choices=("keyed", "lookup", "neither"), default="keyed")
        parser.add_argument(
            "--json", action="store_true", help="print only a summary, as JSON; steps go to stderr"
        )
        parser.add_argument("--slots", type=_slots, help="slots of each worker process")
        parser.add_argument("--keep", action="store_true", help="leave the database and the logs behind")

    def handle(self, *args: Any, **options: Any) -> None:
        signal.signal(signal.SIGTERM, _terminated)
        logging.getLogger().setLevel(logging.WARNING)
        teller = Teller(sys.stderr if options["json"] else sys.stdout)
        try:
            summary = _play(teller, **options)
        except NotSeen as wrong:
            summary = {"promise_held": False, "why": str(wrong)}
        summary = {"demo": options["name"], **summary, "seconds": teller.seconds}
        if options["json"]:
            self.stdout.write(json.dumps(summary, indent=1))
        if not summary["promise_held"]:
            raise CommandError(f"The promise was not kept: {summary['why']}")
        if not options["json"]:
            self.stdout.write(
                f"\nThe promise held, after {summary['seconds']} s:\n{json.dumps(summary, indent=1)}"
            )


def _play(
    teller: Teller, *, name: str, contract: str, slots: int | None, keep: bool, **_: Any
) -> dict[str, Any]:
    demo = DEMOS[name]
    with installation(teller, workers=demo.WORKERS, slots=slots or demo.SLOTS, keep=keep) as on:
        try:
            return {"promise_held": True, **demo.play(on, contract=contract)}
        except NotSeen:
            for line in on.cluster.log_text.splitlines()[-30:]:
                teller.step(f"workers: {line}")
            raise
        finally:
            # From here everything is taken away again, whoever presses Ctrl-C once more.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _slots(text: str) -> int:
    number = int(text)
    if not 1 <= number <= 64:
        raise ValueError(text)
    return number


def _terminated(_signum: int, _frame: FrameType | None) -> None:
    raise SystemExit(143)
