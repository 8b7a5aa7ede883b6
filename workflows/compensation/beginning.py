"""When a compensation becomes due: in the transaction that ends the job, by a hook on FAILED and CANCELLED."""

from __future__ import annotations

import json
from collections.abc import Sequence

from django.db.models import F

from access.roles import WORKER
from workflows import hooks, journal, machines, registry
from workflows.authoring import Workflow
from workflows.compensation.plan import MACHINE, PlannedStep, steps_to_undo
from workflows.hooks import Happened
from workflows.kinds import StageKind
from workflows.models import Checkpoint, Job, KnownRevision, WorkItem

KEY = "1"


def ended_without_confirmation(happened: Happened) -> None:
    """FAILED, CANCELLED: ring the machine if nothing was applied and there is something to be undone.

    The job is locked; writes the machine's item. A process that lacks the job's revision rings where it cannot know
    better: one that has it will find out.
    """
    job = happened.job
    if hooks.effect_stands(job):
        return
    try:
        definition = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    except registry.RevisionMissing:
        if _may_have_something(job):
            _ring(job)
        return
    if announce(job, definition):
        _ring(job)


def announce(job: Job, definition: Workflow) -> Sequence[PlannedStep]:
    """Journal what has to be undone, if anything has; the steps. The job is locked."""
    steps = steps_to_undo(job, definition)
    if steps:
        described = [{"step": s.name, "items": s.items, "takes_none": s.takes_none} for s in steps]
        journal.record(job=job, event="compensation.due", actor=WORKER, evidence={"steps": described})
    return steps


def _ring(job: Job) -> None:
    machines.ring(job=job, machine=MACHINE, key=KEY)
    # A hold ends with its job: there is nobody left to lift it.
    WorkItem.objects.filter(job=job, stage__name=MACHINE, lane_id__lt=0).update(lane_id=-F("lane_id"))


def _may_have_something(job: Job) -> bool:
    known = KnownRevision.objects.filter(
        workflow=job.workflow, revision=job.revision, digest=job.configuration_digest
    ).first()
    if known is not None and known.described and not json.loads(known.described).get("compensations"):
        return False
    saved = Checkpoint.objects.filter(item__job=job).exclude(item__stage__kind=StageKind.VALIDATE)
    return saved.exists() or _was_begun(job)


def _was_begun(job: Job) -> bool:
    steps = (StageKind.STEP, StageKind.EACH)
    return WorkItem.objects.filter(job=job, stage__kind__in=steps, attempts__gt=0).exists()
