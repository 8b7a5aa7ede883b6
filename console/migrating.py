"""What the page of a migration shows: a look at the job, put into rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workflows.actions import migrate
from workflows.authoring import Workflow
from workflows.migrating.plan import Becomes, InputFate, ResultFate, StepFate
from workflows.models import Job, WorkItem
from workflows.states import ItemState

TOO_MANY = 20_000
"""So many saved results are not looked at while a page waits; the command takes its time."""

_MARKS = {
    Becomes.KEPT: "SUCCEEDED",
    Becomes.CONVERTED: "SUCCEEDED",
    Becomes.AGAIN: "READY",
    Becomes.NEW: "WAITING",
    Becomes.ASIDE: "CANCELLED",
    Becomes.IN_THE_WAY: "EXHAUSTED",
}


@dataclass(frozen=True, slots=True)
class Row:
    """The input, or one step: what becomes of it. `code` is the state whose mark it carries."""

    title: str
    becomes: str
    code: str
    sentence: str
    results: tuple[ResultFate, ...] = ()
    """The first of what was saved, each with what becomes of it."""

    unlisted: int = 0


@dataclass(frozen=True, slots=True)
class Shown:
    """A preview. `seen` goes with the form, so that what is done is what was shown."""

    to: str
    rows: tuple[Row, ...]
    why: str
    possible: bool
    seen: str


def results_of(job: Job) -> int:
    """How many saved results a look would go through."""
    return WorkItem.objects.filter(job=job, state=ItemState.SUCCEEDED.number).count()


def shown_of(tenant_id: int, job: Job, target: Workflow) -> Shown:
    """A look at the job. Calls the migration's functions; outside of any transaction."""
    with migrate.look(tenant_id=tenant_id, job_id=job.pk, target=target) as plan:
        rows = [_row("The input", plan.input)] if not plan.why else []
        rows += [replace(_row(f.title, f), results=f.results, unlisted=f.unlisted) for f in plan.steps]
        return Shown(
            to=target.revision,
            rows=tuple(rows),
            why=plan.why,
            possible=plan.possible,
            seen=migrate.shown(plan),
        )


def _row(title: str, fate: InputFate | StepFate) -> Row:
    return Row(title, fate.becomes.value.capitalize(), _MARKS[fate.becomes], fate.sentence)
