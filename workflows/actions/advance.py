"""What a job does next once a stage's items are done: the machine's own actions. Each can be repeated at will."""

from __future__ import annotations

import hashlib
import json
import logging
from datetime import datetime
from typing import Any

from django.utils import timezone

from access.roles import WORKER
from access.statements import Select, Values
from access.tenancy import acting
from workflows import hooks, items, journal, needs, registry, stages
from workflows.locks import lock_items, lock_job
from workflows.models import Attempt, Checkpoint, Job, Stage, StageKind, WorkItem
from workflows.states import ENDED, STUCK_ITEM_STATES, ItemState, JobState

log = logging.getLogger(__name__)


def advance_job(*, tenant_id: int, job_id: int, now: datetime) -> bool:
    """Close the job's open stage if it is done, and open what follows. True when something moved.

    Locks the job, so that of two callers one finds nothing to do. The items are looked at after the lock, in a
    statement of their own. An empty fan-out is done at once.
    """
    with acting(tenant_id):
        job = lock_job(job_id)
        moved = False
        while job.state not in ENDED:
            stage = _OPEN_STAGE.first(job.pk)
            if stage is None or not needs.is_met(job=job, stage=stage, now=now):
                break
            needs.close(job=job, stage=stage, now=now)
            opened = _follow(job=job, stage=stage, now=now)
            moved = True
            if job.state not in (JobState.RECEIVED, JobState.VALIDATED) or (
                opened is not None and opened.total
            ):
                break
        return moved


def go_on(tenant_id: int, job_id: int) -> None:
    """After an action's commit: open at once what follows. What fails here the engine's sweep does within seconds."""
    try:
        advance_job(tenant_id=tenant_id, job_id=job_id, now=timezone.now())
    except Exception:
        log.exception("job %s could not be moved on at once; a worker will do it", job_id)


def report_stopped(*, tenant_id: int, item_id: int, now: datetime) -> bool:
    """Journal an item that is exhausted or refused, once, so that the rooms above open its case."""
    with acting(tenant_id):
        job_id = WorkItem.objects.values_list("job_id", flat=True).get(pk=item_id)
        job = lock_job(job_id)
        (item,) = lock_items([item_id])
        if item.reported_at is not None or item.state_name not in STUCK_ITEM_STATES:
            return False
        if not needs.needs_a_person(stage=item.stage):
            return False
        WorkItem.objects.filter(pk=item.pk).update(reported_at=now)
        exhausted = item.state_name is ItemState.EXHAUSTED
        journal.record(
            job=job,
            event="retry.exhausted" if exhausted else "item.refused",
            actor=WORKER,
            evidence={
                "item": item.pk,
                "stage": item.stage.name,
                "key": item.key,
                "attempts": item.attempts,
                **_last_error(item),
            },
        )
        return True


def _follow(*, job: Job, stage: Stage, now: datetime) -> Stage | None:
    """The stage that is open next, or None where there is none, or one that was kept is open already."""
    if stage.kind == StageKind.PROPOSE:
        hooks.freeze_proposal(job, _output(stage), now)
        return None
    if stage.kind == StageKind.VALIDATE and not _validated(job=job, stage=stage):
        return None
    # RevisionMissing rolls all of it back: a process that has the revision goes on from the sweep.
    workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    step = workflow.after(stage.ordinal)
    if step is not None:
        kept = {name for (name,) in _STAGE_NAMES.all(job.pk)}
        while step is not None and step.name in kept:  # a migration kept it ahead
            step = workflow.after(step.ordinal)
    if step is not None:
        return stages.open_step(job=job, step=step, now=now)
    return None


def _validated(*, job: Job, stage: Stage) -> bool:
    problems = json.loads(_output(stage))
    if problems:
        items.cancel_open(job=job)
        evidence: dict[str, Any] = {"problems": problems}
        journal.transition(
            job=job, to=JobState.FAILED, event="input.refused", actor=WORKER, evidence=evidence
        )
        return False
    evidence = {"report": stage.digest}
    journal.transition(
        job=job, to=JobState.VALIDATED, event="input.validated", actor=WORKER, evidence=evidence
    )
    return True


def _output(stage: Stage) -> str:
    ((output,),) = _OUTPUT.all(stage.pk, stage.job_id)
    return str(output)


def _last_error(item: WorkItem) -> dict[str, str]:
    attempt = Attempt.objects.filter(item=item).order_by("-claim_no").first()
    if attempt is None:
        return {}
    message = hashlib.sha256(attempt.error_message.encode()).hexdigest()
    return {"error": attempt.error_class, "message_digest": message, "outcome": attempt.outcome}


_OPEN_STAGE = Select(
    lambda job: (
        Stage.objects.filter(job=job, closed_at__isnull=True)
        .exclude(kind=StageKind.MACHINE)
        .order_by("pk")[:1]
    )
)
_STAGE_NAMES = Values(lambda job: Stage.objects.filter(job=job).values_list("name"))
_OUTPUT = Values(
    lambda stage, job: (
        Checkpoint.objects.filter(item__stage=stage, item__job_id=job)
        .order_by("-version")
        .values_list("output")[:1]
    )
)
