"""Doing what a plan says, in the transaction that holds the job's lock: job → its items by id → inserts.

What ran when the lock was had has run in vain: its item is set aside, so its result comes too late. Results that came
between the look and the lock are converted here; there can only be a few of them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Max

from access.refusals import Conflict
from workflows import apart, needs, registry, stages
from workflows.actions.revisions import lift
from workflows.asides import UNFINISHED, set_aside
from workflows.kinds import StageKind
from workflows.locks import lock_unfinished
from workflows.migrating.plan import Keep, Plan
from workflows.migrating.planning import shape_of, why_not
from workflows.migrating.results import Unfit, fitted, saved_in
from workflows.models import HeldFor, Job, JobInput, Stage, WorkItem
from workflows.states import ItemState

LATE = 200
"""So many results may have come since the look; more are looked at again outside of the lock."""


class MovedMeanwhile(Conflict):
    """The job is not as it was when it was looked at."""


def apply(job: Job, plan: Plan, now: datetime) -> dict[str, Any]:
    """Migrate a locked job; what the journal keeps of it. Raises MovedMeanwhile, Unfit; then nothing was done."""
    lock_unfinished(job)
    if (job.version, shape_of(job)) != (plan.version, plan.shape) or _waits(job):
        raise MovedMeanwhile(f"{job.label} goes on while it is looked at. Hold it first.")
    if said := why_not(job, plan.target):
        raise Conflict(said)
    _late_results(job, plan)
    freed = job.held_for == HeldFor.REVISION
    aside = _set_aside(job, plan, now)
    _take_over(plan)
    _convert(job, plan)
    _pin(job, plan, now)
    _go_on(job, plan, now)
    return {
        "steps": {f.name: f.becomes.value for f in plan.steps},
        "stages": {k.step.name: k.was for k in plan.keeps},
        "aside": aside,
        "converted": [k.step.name for k in plan.keeps if k.convert is not None],
        "freed": freed,
    }


def _waits(job: Job) -> bool:
    return WorkItem.objects.filter(job=job, state=ItemState.WAITING.number, stage__kind__in=_STEPS).exists()


def _late_results(job: Job, plan: Plan) -> None:
    for keep in plan.keeps:
        stage = Stage.objects.get(pk=keep.stage_id)
        for number, saved in enumerate(saved_in(stage, after=keep.seen)):
            if number == LATE:
                raise MovedMeanwhile(f"{job.label} goes on while it is looked at. Hold it first.")
            text, digest = fitted(plan.target, keep.step, saved, keep.convert)
            if text:
                plan.converted.add(keep.stage_id, saved.item_id, saved.key, text, digest)


def _set_aside(job: Job, plan: Plan, now: datetime) -> dict[str, str]:
    """Stages that nothing takes, and what is left of half done ones, get a name and a kind of their own.

    Returns their names, with the names that they had.
    """
    mark = f"@{plan.from_revision}"
    names = set_aside(job=job, stages=plan.aside, mark=mark, now=now)
    for keep in (k for k in plan.keeps if k.partly):
        left = WorkItem.objects.filter(job=job, stage=keep.stage_id, state__in=UNFINISHED)
        if count := left.count():
            aside = _stage_beside(Stage.objects.get(pk=keep.stage_id), f"{keep.was}{mark}", count, now)
            left.update(stage_id=aside.pk, state=ItemState.CANCELLED.number, finished_at=now)
            names[aside.name] = keep.was
    return names


def _stage_beside(stage: Stage, name: str, total: int, now: datetime) -> Stage:
    return Stage.objects.create(
        tenant_id=stage.tenant_id,
        job_id=stage.job_id,
        name=name,
        ordinal=stage.ordinal,
        kind=StageKind.SET_ASIDE,
        total=total,
        opened_at=stage.opened_at,
        closed_at=now,
    )


def _take_over(plan: Plan) -> None:
    """What is kept becomes the later revision's. Names may be exchanged, so they are all given up first."""
    for keep in plan.keeps:
        Stage.objects.filter(pk=keep.stage_id).update(name=f"~{keep.stage_id}")
    for keep in plan.keeps:
        Stage.objects.filter(pk=keep.stage_id).update(
            name=keep.step.name, ordinal=keep.step.ordinal, kind=keep.step.kind
        )


def _convert(job: Job, plan: Plan) -> None:
    with connection.cursor() as cursor:
        for chunk in plan.converted.chunks():
            values: dict[str, Any] = {
                "tenant": job.tenant_id,
                "items": [row[1] for row in chunk],
                "outputs": [row[3] for row in chunk],
                "digests": [row[4] for row in chunk],
            }
            cursor.execute(_NEXT_VERSIONS, values)


def _pin(job: Job, plan: Plan, now: datetime) -> None:
    target = plan.target
    job.revision = target.revision
    job.configuration_digest = registry.digests()[target.name, target.revision]
    Job.objects.filter(pk=job.pk).update(revision=job.revision, configuration_digest=job.configuration_digest)
    if plan.input.text:
        last = JobInput.objects.filter(job=job).aggregate(last=Max("version"))["last"] or 1
        JobInput.objects.create(
            tenant_id=job.tenant_id,
            job=job,
            version=last + 1,
            value=plan.input.text,
            digest=plan.input.digest,
            created_at=now,
        )


def _go_on(job: Job, plan: Plan, now: datetime) -> None:
    """Free the job from what held it for its old revision, and open what comes next."""
    if job.held_for == HeldFor.REVISION:
        lift(job)
    apart.put_together(job=job)
    for keep in plan.keeps:
        _keep(job, plan, keep, now)
    if plan.validates:
        stages.open_validation(job=job, now=now)
    elif plan.first is not None:
        stages.open_step(job=job, step=plan.first, now=now)


def _keep(job: Job, plan: Plan, keep: Keep, now: datetime) -> None:
    stage = Stage.objects.get(pk=keep.stage_id)
    if keep.partly:
        _make_anew(job, plan, keep, stage)
    elif stage.closed_at is None and keep.step.kind is not StageKind.PROPOSE:
        needs.close(job=job, stage=stage, now=now)
    elif keep.convert is not None and stage.closed_at is not None:
        Stage.objects.filter(pk=stage.pk).update(digest=needs.checkpoints_digest(stage))


def _make_anew(job: Job, plan: Plan, keep: Keep, stage: Stage) -> None:
    """Items of the later revision for what was set aside of a half done fan-out."""
    aside = WorkItem.objects.filter(job=job, stage__name=f"{keep.was}@{plan.from_revision}")
    missing = set(aside.values_list("key", flat=True))
    made = 0
    for chunk in plan.elements.chunks():
        elements = [(str(k), int(n), str(v)) for of, k, n, v in chunk if of == stage.pk and k in missing]
        if elements:
            made += stages.add_items(job=job, stage=stage, step=keep.step, elements=elements)
    if made != len(missing):
        raise MovedMeanwhile(f"{job.label} goes on while it is looked at. Hold it first.")
    needed = keep.step.needs
    Stage.objects.filter(pk=stage.pk).update(
        need=needed.of(stage.total), patience=needed.patience, met_at=None
    )


_STEPS = (StageKind.VALIDATE, StageKind.STEP, StageKind.EACH, StageKind.PROPOSE)

_NEXT_VERSIONS = """
INSERT INTO workflows_checkpoint (tenant_id, item_id, version, output, digest, created_at)
SELECT %(tenant)s, d.item_id,
  coalesce((SELECT max(version) FROM workflows_checkpoint k WHERE k.item_id = d.item_id), 0) + 1,
  d.output, d.digest, clock_timestamp()
FROM unnest(%(items)s::bigint[], %(outputs)s::text[], %(digests)s::text[]) AS d(item_id, output, digest)
"""

__all__ = ["MovedMeanwhile", "Unfit", "apply"]
