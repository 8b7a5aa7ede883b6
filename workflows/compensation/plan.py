"""What a job that ended without its effect has to undo. Read from the rows; needs the tenant's scope.

The plan is the journal's last `compensation.due`: which steps, last first, with how many results each. What is left
of it follows from the states of their items, so nothing has to be remembered between two calls or two workers.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from django.db.models import Count, Exists, OuterRef, Q

from access.refusals import Conflict
from access.tenancy import TenantQuerySet
from workflows.authoring import Workflow
from workflows.models import Attempt, Job, JournalEntry, Worker, WorkItem
from workflows.states import STUCK_ITEM_STATES, ItemState

MACHINE = "workflows.undo"
WITHOUT_RESULT = (ItemState.CANCELLED, ItemState.SKIPPED, *STUCK_ITEM_STATES)
_MARKS = ("compensation.due", "compensation.blocked", "compensation.resumed")


class StillUndoing(Conflict):
    """What the job's steps made is being undone: it can be run again when that has ended."""


class Standing(StrEnum):
    """How far a compensation is."""

    UNDER_WAY = "under way"  # due, running, or between two tries
    BLOCKED = "blocked"  # the revision that knows how is not deployed; a case is open
    STOPPED = "stopped"  # a handler failed for good; a case is open
    FINISHED = "finished"  # nothing is left, or a person has said what became of it


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """One compensated step with the number of its items that are undone. `takes_none`: also those without a result."""

    name: str
    items: int
    takes_none: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What has to be undone, in this order, as the journal tells it since `at`."""

    steps: tuple[PlannedStep, ...]
    at: datetime
    sequence: int


@dataclass(frozen=True, slots=True)
class StepProgress:
    """One step of a plan: how many of its items are undone, and since when all of them are."""

    name: str
    undone: int
    of: int
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Progress:
    """A job's compensation as people see it. Without a plan the steps are not known here yet."""

    standing: Standing
    steps: tuple[StepProgress, ...]
    again_at: datetime | None
    finished_at: datetime | None

    @property
    def undone(self) -> int:
        """Items that are undone, over all steps."""
        return sum(s.undone for s in self.steps)

    @property
    def of(self) -> int:
        """Items that are to be undone, over all steps."""
        return sum(s.of for s in self.steps)


def steps_to_undo(job: Job, definition: Workflow) -> list[PlannedStep]:
    """The compensated steps of a definition that have something to be undone, the last one first."""
    every = [
        PlannedStep(s.name, 0, definition.compensations[s.name].takes_none)
        for s in reversed(definition.steps)
        if s.name in definition.compensations
    ]
    if not every:
        return []
    rows = _undoable(job, every).order_by().values_list("stage__name").annotate(n=Count("pk"))
    counts = dict(rows)
    return [PlannedStep(s.name, counts[s.name], s.takes_none) for s in every if s.name in counts]


def plan_of(job: Job) -> Plan | None:
    """The job's latest plan, or None where nothing had to be undone (or nobody who knows has looked yet)."""
    entry = JournalEntry.objects.filter(job=job, event="compensation.due").order_by("-sequence").first()
    if entry is None:
        return None
    steps = [PlannedStep(s["step"], s["items"], s["takes_none"]) for s in json.loads(entry.evidence)["steps"]]
    return Plan(tuple(steps), entry.at, entry.sequence)


def is_of_this_end(job: Job, plan: Plan | None) -> bool:
    """Whether a plan was made since the job last ended, and not before somebody ran it again."""
    if plan is None:
        return False
    last_move = JournalEntry.objects.filter(job=job).exclude(to_state="").order_by("-sequence").first()
    return last_move is not None and plan.sequence > last_move.sequence


def left(job: Job, steps: Sequence[PlannedStep]) -> TenantQuerySet[WorkItem]:
    """The items that are still to be undone, in the order of undoing: last step first, in it the last input first."""
    found: Any = _undoable(job, steps).order_by("-stage__ordinal", "-ordinal", "-pk").select_related("stage")
    return found  # type: ignore[no-any-return]


def may_still_run(job: Job, stage_id: int) -> bool:
    """Whether a living worker may still be inside a handler of a stage whose items were cancelled or skipped.

    Such an attempt makes its row when it ends; until then what it makes may come after an undoing.
    """
    told = Attempt.objects.filter(item=OuterRef("pk"), claim_no=OuterRef("claim_no"))
    living = Worker.objects.filter(ended_at__isnull=True).values("pk")
    begun = WorkItem.objects.filter(
        job=job, stage_id=stage_id, state__in=_numbers(WITHOUT_RESULT), attempts__gt=0, worker_id__in=living
    )
    return bool(begun.exclude(Exists(told)).exists())


def standing_of(job: Job) -> Standing | None:
    """How far the job's compensation is; None where there is none."""
    item = machine_item(job)
    return None if item is None else _standing(job, item, plan_of(job))


def is_blocked(job: Job) -> bool:
    """Whether the last thing that happened to the compensation is that its revision was not there."""
    last = JournalEntry.objects.filter(job=job, event__in=_MARKS).order_by("-sequence").first()
    return last is not None and last.event == "compensation.blocked"


def machine_item(job: Job) -> WorkItem | None:
    """The machine item that undoes, once it was rung for."""
    return WorkItem.objects.filter(job=job, stage__name=MACHINE).first()


def finished_at(job: Job, plan: Plan) -> datetime | None:
    """When everything of a plan was undone, or a person said what became of the rest."""
    entries = JournalEntry.objects.filter(job=job, sequence__gt=plan.sequence, event="compensation.finished")
    return entries.values_list("at", flat=True).first()


def progress_of(job: Job) -> Progress | None:
    """All that the screens say of a compensation, or None. One query where there is none, six at most."""
    item = machine_item(job)
    plan = None if item is None else plan_of(job)
    standing = None if item is None else _standing(job, item, plan)
    if item is None or standing is None:
        return None
    return Progress(
        standing=standing,
        steps=() if plan is None else _steps(job, plan),
        again_at=item.next_attempt_at if item.attempts else None,
        finished_at=None if plan is None else finished_at(job, plan),
    )


def refuse_redrive(job: Job) -> None:
    """StillUndoing while a compensation is due, under way or stopped. For whoever runs a FAILED job again.

    Asked with the job locked, before the job leaves FAILED. When it passes, results that were undone are COMPENSATED.
    """
    standing = standing_of(job)
    if standing in (None, Standing.FINISHED):
        return
    progress = progress_of(job)
    so_far = f" ({progress.undone} of {progress.of})" if progress is not None and progress.of else ""
    raise StillUndoing(
        f"What the steps of {job.label} made is being undone{so_far}. Nothing of it runs again meanwhile."
    )


def _standing(job: Job, item: WorkItem, plan: Plan | None) -> Standing | None:
    if item.state_name in STUCK_ITEM_STATES:
        return Standing.STOPPED
    if item.state_name in (ItemState.SUCCEEDED, ItemState.CANCELLED):
        return None if plan is None else Standing.FINISHED
    return Standing.BLOCKED if is_blocked(job) else Standing.UNDER_WAY


def _undoable(job: Job, steps: Sequence[PlannedStep]) -> TenantQuerySet[WorkItem]:
    every = [s.name for s in steps]
    without = [s.name for s in steps if s.takes_none]
    gave = Q(stage__name__in=every, state=ItemState.SUCCEEDED.number)
    begun = Q(stage__name__in=without, state__in=_numbers(WITHOUT_RESULT), attempts__gt=0)
    return WorkItem.objects.filter(gave | begun, job=job)


def _steps(job: Job, plan: Plan) -> tuple[StepProgress, ...]:
    names = [s.name for s in plan.steps]
    undone = WorkItem.objects.filter(
        job=job, stage__name__in=names, state=ItemState.COMPENSATED.number, finished_at__gte=plan.at
    )
    counts = dict(undone.order_by().values_list("stage__name").annotate(n=Count("pk")))
    ended: dict[str, datetime] = {}
    entries = JournalEntry.objects.filter(job=job, sequence__gt=plan.sequence, event="step.compensated")
    for evidence, at in entries.values_list("evidence", "at"):
        ended[json.loads(evidence)["step"]] = at
    return tuple(StepProgress(s.name, counts.get(s.name, 0), s.items, ended.get(s.name)) for s in plan.steps)


def _numbers(states: Sequence[ItemState]) -> list[int]:
    return [s.number for s in states]
