"""`manage.py load_sample`: the sample organisation, for trying things out. Never load it where real work is done."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from examples.management import sample


class Command(BaseCommand):
    help = "Load the sample organisation with its people, policies and receivers. A repeat changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--show", action="store_true", help="only print who can sign in, and how")

    def handle(self, *args: Any, show: bool, **options: Any) -> None:
        if show:
            if sample.loaded() is None:
                raise CommandError("The sample organisation is not loaded: run manage.py load_sample first.")
            self._show()
            return
        sample.load(now=timezone.now())
        self.stdout.write(f"{sample.NAME} is loaded.")

    def _show(self) -> None:
        width = max(len(handle) for handle in sample.PEOPLE)
        self.stdout.write(
            f"{sample.NAME} (sample), everybody's password: {sample.password()}\n"
            + "\n".join(f"  {handle:<{width}}  {role.label}" for handle, role in sample.PEOPLE.items())
        )
