"""`manage.py replay JOB`: fold the journal and the attempts back into the job's state, and compare."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workflows.replaying import comparing, rows
from workflows.replaying.folding import Folded, fold
from workflows.replaying.rows import Rows


class Command(BaseCommand):
    help = (
        "Fold a job's journal and attempts back into its state. Without --at, compare it with what is stored: exit code 1"
        " where they differ."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", type=_job, metavar="JOB", help="a number, or JOB-12")
        parser.add_argument("--at", type=int, metavar="N", help="as it was after line N of its journal")

    def handle(self, *args: Any, job: int, at: int | None, **options: Any) -> None:
        try:
            tenant_id = rows.tenant_of(job)
        except rows.NoSuchJob as missing:
            raise CommandError(str(missing)) from missing
        with rows.snapshot(tenant_id):
            found = rows.rows_of(job)
            if at is not None and not 1 <= at <= len(found.lines):
                raise CommandError(f"{found.job.label} has lines 1 to {len(found.lines)}.")
            folded = fold(found, at)
            self._tell(found, folded)
            if at is None:
                self._compare(found, folded)

    def _tell(self, found: Rows, folded: Folded) -> None:
        tell = self.stdout.write
        tell(
            f"{found.job.label} after line {folded.sequence} of {len(found.lines)}, {folded.at:%Y-%m-%d %H:%M:%S %Z}"
        )
        tell(f"  state      {folded.state}{f', held by {folded.held_by}' if folded.held_by else ''}")
        if folded.cancel_requested_by:
            tell(f"  cancel     requested by {folded.cancel_requested_by}")
        tell(f"  workflow   {found.job.workflow} revision {folded.revision}")
        tell(f"  head       {folded.head.hex()}")
        for stage in found.stages:
            items = [item for item in folded.items if item.stage == stage.name]
            if items:
                tell(f"  {stage.name:<10} {_counts(items)}")

    def _compare(self, found: Rows, folded: Folded) -> None:
        differences = comparing.compare(found, folded)
        what = ", ".join(["the job", "its stages", "items", "saved results", *comparing.rooms()])
        if not differences:
            self.stdout.write(f"Equal to what is stored: {what}.")
            return
        for difference in differences:
            self.stderr.write(f"  {difference}")
        count = f"{len(differences)} difference{'' if len(differences) == 1 else 's'}"
        raise CommandError(f"{found.job.label} is not as it was written down: {count}.")


def _counts(items: list[Any]) -> str:
    counts: dict[str, int] = {}
    for item in items:
        # What the rows leave open is one word to whoever reads it.
        words = " or ".join(sorted(s.value for s in item.states)) if len(item.states) <= 2 else "open"
        counts[words] = counts.get(words, 0) + 1
    return ", ".join(f"{count} {words}" for words, count in sorted(counts.items()))


def _job(text: str) -> int:
    digits = text.upper().removeprefix("JOB-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 19):
        raise ArgumentTypeError(f"{text} is no job; give its number, such as 12 or JOB-12")
    return int(digits)
