"""`manage.py verify_journal`: recompute every chain, and name the first bad row."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workflows import verification


class Command(BaseCommand):
    help = "Recompute the journals of every job and tenant. Exit code 1 and the first bad row when one was changed."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--job", type=int, metavar="ID", help="only this job's journal")

    def handle(self, *args: Any, job: int | None, **options: Any) -> None:
        jobs = verification.verify_jobs(job_id=job)
        tenants = verification.Verified(0, 0) if job is not None else verification.verify_tenants()
        if job is not None and jobs.chains == 0:
            raise CommandError(f"There is no job {job}.")
        for bad in (jobs.bad, tenants.bad):
            if bad is not None:
                raise CommandError(f"The journal was changed. First bad row: {bad}.")
        self.stdout.write(
            f"Every chain is whole. Jobs: {jobs.chains} (rows: {jobs.rows})."
            f" Organisations: {tenants.chains} (rows: {tenants.rows})."
        )
