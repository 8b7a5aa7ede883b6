"""`manage.py startworkflow NAME`: a first workflow, as a package of its own that is yours from then on."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from config.var import PROJECT
from examples.management.starting import CannotStart, write_package
from workflows import registry


class Command(BaseCommand):
    help = "Write a first workflow as a package of its own, outside this repository, with its test."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the workflow's name, such as expense-claims")
        parser.add_argument(
            "--into",
            type=Path,
            default=Path(),
            metavar="FOLDER",
            help="where its folder is made; here by default",
        )

    def handle(self, *args: Any, name: str, into: Path, **options: Any) -> None:
        taken = {workflow for workflow, _ in registry.workflows()}
        try:
            package = write_package(name, into, taken=taken)
        except CannotStart as refused:
            raise CommandError(str(refused)) from refused
        self.stdout.write(
            f"{package} holds the workflow {name}. What comes next:\n\n"
            f"    . {PROJECT / '.venv/bin/activate'}\n"
            f"    cd {package}\n"
            "    pytest\n"
            "    pip install -e .\n\n"
            "Its README.md says the rest."
        )
