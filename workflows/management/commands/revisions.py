"""`manage.py revisions`: what is deployed, and which revisions still have jobs that are not done."""

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from workflows import registry
from workflows.deployed import Deployed, deployed


class Command(BaseCommand):
    help = (
        "List the revisions of workflows: loaded here, served by workers, still needed by jobs."
        " Exit code 1 when jobs that have not ended need a revision that is not loaded here."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("workflow", nargs="?", default="", help="only this one")

    def handle(self, *args: Any, workflow: str, **options: Any) -> None:
        found = deployed(workflow)
        if workflow and not found:
            names = ", ".join(sorted({name for name, _ in registry.workflows()})) or "none"
            raise CommandError(f"Nothing is known of {workflow}. Loaded here: {names}.")
        for name in sorted({one.workflow for one in found}):
            self.stdout.write(name)
            for one in (d for d in found if d.workflow == name):
                self.stdout.write(f"  {_line(one)}")
        missing = [one for one in found if one.is_needed_and_not_here]
        if missing:
            told = "; ".join(f"{m.workflow} revision {m.revision} ({m.unfinished.count:,})" for m in missing)
            raise CommandError(
                f"Jobs that have not ended need what is not loaded here: {told}."
                " Deploy it beside the others, or migrate the jobs."
            )


def _line(one: Deployed) -> str:
    where = "new jobs take it" if one.current else "loaded here" if one.loaded else "not loaded here"
    workers = f"{one.workers} worker{'' if one.workers == 1 else 's'}"
    return f"revision {one.revision:<8} {one.digest[:12]}  {where:<16}  {workers:<10}  {_work(one)}"


def _work(one: Deployed) -> str:
    left = one.unfinished
    if not left.count:
        return "no unfinished job" + ("" if one.current else ": it can go")
    states = ", ".join(f"{count:,} {state}" for state, count in left.states.items())
    held = f", {left.held:,} held for it" if left.held else ""
    return f"{left.count:,} unfinished ({states}{held}), the oldest of {left.oldest}"
