"""`manage.py backup FILE`: a dump of the database that was read back before it counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from config.database import DatabaseUnusable
from config.dumping import DumpUnusable
from console.backups.content import JOBS
from console.backups.taking import take


class Command(BaseCommand):
    help = "Dump the database into a new file, and read it back: rows of each table, and the head of every journal."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="does not exist yet")

    def handle(self, *args: Any, file: Path, **options: Any) -> None:
        try:
            content = take(file)
        except (DumpUnusable, DatabaseUnusable) as unusable:
            raise CommandError(f"{str(unusable).rstrip('.')}.") from unusable
        self.stdout.write(
            f"{file}: {content.rows[JOBS]:,} jobs, {sum(content.rows.values()):,} rows in {len(content.rows)} tables, read"
            " back whole. The installation's keys are not in it: keep them apart."
        )
