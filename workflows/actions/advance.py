"""What a job does next once a stage's items are done: the machine's own actions. Each can be repeated at will."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from typing import Any

from access.roles import WORKER
from access.tenancy import acting
from workflows import hooks, items, journal, registry, stages
from workflows.authoring import Workflow
from workflows.authoring.steps import Step
from workflows.locks import lock_items, lock_job
from workflows.models import Attempt, Checkpoint, Job, Stage, StageKind, WorkItem
from workflows.states import ENDED, OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState, JobState

_BLOCKING = [s.number for s in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)]


def advance_job(*, tenant_id: int, job_id: int, now: datetime) -> bool:
    """Close the job's open stage if all of it is done, and open what follows. True when something moved.

    Locks the job, so that of two callers one finds nothing to do. The items are looked at after the lock, in a
    statement of their own.
    """
    with acting(tenant_id):
        job = lock_job(job_id)
        if job.state in ENDED:
            return False
        stage = Stage.objects.filter(job=job, closed_at__isnull=True).exclude(kind=StageKind.MACHINE).first()
        if stage is None or WorkItem.objects.filter(job=job, stage=stage, state__in=_BLOCKING).exists():
            return False
        _close(job=job, stage=stage, now=now)
        _follow(job=job, stage=stage, now=now)
        return True


def report_stopped(*, tenant_id: int, item_id: int, now: datetime) -> bool:
    """Journal an item that is exhausted or refused, once, so that the rooms above open its case."""
    with acting(tenant_id):
        job_id = WorkItem.objects.values_list("job_id", flat=True).get(pk=item_id)
        job = lock_job(job_id)
        (item,) = lock_items([item_id])
        if item.reported_at is not None or item.state_name not in STUCK_ITEM_STATES:
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


def hold_for_revision(*, tenant_id: int, job_id: int, why: str, now: datetime) -> bool:
    """Hold a job whose pinned revision is not deployed where it was claimed; the hook opens its case."""
    with acting(tenant_id):
        job = lock_job(job_id)
        if job.held_at is not None or job.state in ENDED:
            return False
        Job.objects.filter(pk=job.pk).update(held_at=now, held_by=WORKER.name, hold_reason=why[:1000])
        items.set_held(job=job, held=True)
        job.held_at, job.held_by, job.hold_reason = now, WORKER.name, why
        journal.record(job=job, event="revision.missing", actor=WORKER, evidence={"why": why})
        return True


def _close(*, job: Job, stage: Stage, now: datetime) -> None:
    digest = checkpoints_digest(stage)
    Stage.objects.filter(pk=stage.pk).update(closed_at=now, digest=digest)
    stage.digest = digest
    if stage.kind == StageKind.EACH:
        evidence = {"stage": stage.name, "items": stage.total, "checkpoints": digest}
        journal.record(job=job, event="stage.closed", actor=WORKER, evidence=evidence)


def _follow(*, job: Job, stage: Stage, now: datetime) -> None:
    if stage.kind == StageKind.PROPOSE:
        hooks.freeze_proposal(job, _output(stage), now)
        return
    if stage.kind == StageKind.VALIDATE and not _validated(job=job, stage=stage):
        return
    # RevisionMissing rolls all of it back: a process that has the revision goes on from the sweep.
    workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    step = workflow.after(stage.ordinal)
    if step is not None:
        open_stage(job=job, workflow=workflow, step=step, now=now)


def open_stage(*, job: Job, workflow: Workflow, step: Step, now: datetime) -> None:
    """Open a step's stage on what came before. The caller holds the job's lock."""
    if step.each is None:
        stages.open_step(job=job, step=step, elements=None, now=now)
    elif not step.each.field:
        stages.open_each_result(job=job, step=step, source=step.each, now=now)
    else:
        source = Stage.objects.get(job=job, name=step.each.step)
        elements = json.loads(_output(source))[step.each.field]
        texts = [json.dumps(e, ensure_ascii=False, separators=(",", ":")) for e in elements]
        stages.open_step(job=job, step=step, elements=texts, now=now)


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
    rows = Checkpoint.objects.filter(item__stage=stage, item__job_id=stage.job_id).order_by("-version")
    return str(rows.values_list("output", flat=True)[0])


def checkpoints_digest(stage: Stage) -> str:
    """SHA-256 over the digests of a stage's checkpoints, in input order."""
    rows = Checkpoint.objects.filter(item__stage=stage, item__job_id=stage.job_id)
    digests = rows.order_by("item__ordinal", "version").values_list("item__key", "version", "digest")
    text = "\n".join(f"{key} {version} {digest}" for key, version, digest in digests)
    return hashlib.sha256(text.encode()).hexdigest()


def _last_error(item: WorkItem) -> dict[str, str]:
    attempt = Attempt.objects.filter(item=item).order_by("-claim_no").first()
    if attempt is None:
        return {}
    message = hashlib.sha256(attempt.error_message.encode()).hexdigest()
    return {"error": attempt.error_class, "message_digest": message, "outcome": attempt.outcome}
