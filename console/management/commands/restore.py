"""`manage.py restore FILE`: a backup put back, all or nothing, with dispatch shut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.database import DatabaseUnusable
from config.dumping import DumpUnusable
from console.backups.content import JOBS, Content
from console.backups.putting_back import Lost, look, put_back


class Command(BaseCommand):
    help = "Put a backup back in the place of what the database holds. Nothing is sent before somebody opens dispatch."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "file", type=Path, help="that `backup` has written, or pg_dump in the custom format"
        )
        parser.add_argument(
            "--overwrite", action="store_true", help="also where the database has jobs, which are lost"
        )

    def handle(self, *args: Any, file: Path, overwrite: bool, **options: Any) -> None:
        try:
            content, lost = look(file)
            if lost.jobs and not overwrite:
                raise CommandError(f"{_loses(lost, content)} Say --overwrite if that is meant.")
            put_back(file, content)
        except (DumpUnusable, DatabaseUnusable) as unusable:
            raise CommandError(f"{str(unusable).rstrip('.')}.") from unusable
        self.stdout.write(
            f"{content.rows[JOBS]:,} jobs are back, and every journal is whole. Dispatch is shut: `manage.py dispatch status`"
            " says what may have been sent since, and docs/restore.md how it is opened."
        )


def _loses(lost: Lost, content: Content) -> str:
    return (
        f"The database holds {lost.jobs:,} jobs and the backup {len(content.versions):,}. Lost would be {lost.unknown:,} jobs"
        f" that the backup does not know, and what happened to {lost.went_on:,} others since."
    )
