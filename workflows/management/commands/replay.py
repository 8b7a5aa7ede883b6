"""`manage.py replay JOB`: fold the journal and the attempts back into the job's state, and compare; run one again."""

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from workflows import registry
from workflows.replaying import comparing, recorded, rerun, rows, telling
from workflows.replaying.folding import Folded, fold
from workflows.replaying.rows import Rows


class Command(BaseCommand):
    help = (
        "Fold a job's journal and attempts back into its state. Without --at, compare it with what is stored: exit code 1"
        " where they differ. With --attempt and --run, run one attempt again without any effect: exit code 1 where it ends"
        " otherwise than recorded."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("job", type=_job, metavar="JOB", help="a number, or JOB-12")
        parser.add_argument("--at", type=int, metavar="N", help="as it was after line N of its journal")

        parser.add_argument("--attempt", type=int, metavar="ID", help="what was recorded of one attempt")
        parser.add_argument("--run", action="store_true", help="run it again, with no effect, and compare")
        parser.add_argument(
            "--allow-provider",
            nargs="?",
            const=settings.COUNTERFOIL_PROVIDER_URL,
            default="",
            metavar="URL",
            help="let it reach the model provider (COUNTERFOIL_PROVIDER_URL, or this one); its calls cost money",
        )
        parser.add_argument("--seconds", type=float, default=120.0, help="end it after so long (120)")
        parser.add_argument(
            "--show-values", action="store_true", help="print contents, not their sizes alone"
        )

    def handle(self, *args: Any, job: int, at: int | None, attempt: int | None, **options: Any) -> None:
        if attempt is None and options["run"]:
            raise CommandError("--run runs one attempt: name it with --attempt.")
        if attempt is not None and at is not None:
            raise CommandError("--at is for the whole job: leave it out, or --attempt.")
        try:
            tenant_id = rows.tenant_of(job)
        except rows.NoSuchJob as missing:
            raise CommandError(str(missing)) from missing
        if attempt is not None:
            self._attempt(tenant_id, job, attempt, **options)
            return
        with rows.snapshot(tenant_id):
            found = rows.rows_of(job)
            if at is not None and not 1 <= at <= len(found.lines):
                raise CommandError(f"{found.job.label} has lines 1 to {len(found.lines)}.")
            folded = fold(found, at)
            self._tell(found, folded)
            if at is None:
                self._compare(found, folded)

    def _attempt(
        self, tenant_id: int, job: int, attempt: int, *, run: bool, show_values: bool, **options: Any
    ) -> None:
        try:
            with rows.snapshot(tenant_id):
                found = rows.rows_of(job)
                record = recorded.attempt_of(found, attempt)
        except (recorded.NotToBeRun, registry.RevisionMissing) as refused:
            raise CommandError(str(refused)) from refused
        for line in telling.recorded(found.job, record, values=show_values):
            self.stdout.write(line)
        if not run:
            return
        again = rerun.run_again(
            record, record.order(found.job), provider=options["allow_provider"], seconds=options["seconds"]
        )
        for line in telling.again(again, values=show_values):
            self.stdout.write(line)
        if not again.same:
            raise CommandError(again.verdict)
        self.stdout.write(again.verdict)

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
