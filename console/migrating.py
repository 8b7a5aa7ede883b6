"""What the page of a migration shows: a look at the job, put into rows."""

from __future__ import annotations

from dataclasses import dataclass

from workflows.actions import migrate
from workflows.authoring import Workflow
from workflows.migrating.plan import Becomes
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
        fates = [("The input", plan.input.becomes, plan.input.sentence)] if not plan.why else []
        fates += [(fate.title, fate.becomes, fate.sentence) for fate in plan.steps]
        return Shown(
            to=target.revision,
            rows=tuple(Row(t, b.value.capitalize(), _MARKS[b], s) for t, b, s in fates),
            why=plan.why,
            possible=plan.possible,
            seen=migrate.shown(plan),
        )
