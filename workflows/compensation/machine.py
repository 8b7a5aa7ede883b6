"""The machine "workflows.undo": undoes what a job's steps made, one result after the other, the last one first.

It looks at the rows before each result, so it may be called for nothing and killed at any line:

    before the handler is called         nothing happened; the next call begins with the same result
    in the handler, or before the commit the handler is called again with the same request key
    after the commit                     the result is COMPENSATED; the next call begins with the one before it

Every write asks whether the claim is still ours: a process that was taken for dead and lives records nothing.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models.functions import Now

from access.roles import WORKER, Actor, ActorKind
from access.tenancy import acting
from workflows import clock, hooks, journal, known, registry
from workflows.authoring import Ctx, Workflow
from workflows.compensation import plan as plans
from workflows.compensation.beginning import announce
from workflows.compensation.plan import Plan
from workflows.engine import handlers
from workflows.engine.handling import request_key
from workflows.locks import lock_job
from workflows.machines import Claim, Done, Wait
from workflows.models import Checkpoint, Job, WorkItem
from workflows.states import ItemState, JobState

log = logging.getLogger(__name__)
AT_A_TIME = 2.0
"""Seconds after which the machine gives its slot back, so that a stop and other jobs need not wait for it."""

LOOKED_AHEAD = 100
SOON, LOOK_AGAIN = timedelta(seconds=1), timedelta(seconds=60)
LONGEST_LOOK = 30.0


@dataclass(frozen=True, slots=True)
class _Undo:
    """One result, with all that its handler is given."""

    definition: Workflow
    item_id: int
    step: str
    output: str | None
    ctx: Ctx


def run(claim: Claim) -> Done | Wait:
    """Undo what is left, as far as the time goes; the engine's handler. Raises what a workflow's handler raises."""
    until = time.monotonic() + AT_A_TIME
    walk, undone = _Walk(claim), 0
    while True:
        task = walk.next()
        if not isinstance(task, _Undo):
            return task
        try:
            _call(task)
        except Exception:
            if not undone:
                raise
            # Tries in a row are counted; between this one and the last, something was undone.
            log.info("undoing %s failed; it is tried again", task.ctx.request_key, exc_info=True)
            return Wait(clock.now() + SOON)
        walk.record(task)
        undone += 1
        if time.monotonic() >= until:
            return Wait(clock.now())


class _Walk:
    """From the last result to the first, some ids at a time: nobody else undoes while the machine's item is ours."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._definition: Workflow | None = None
        self._ahead: deque[tuple[int, int]] = deque()
        self._take_none: set[str] = set()

    def next(self) -> _Undo | Done | Wait:
        """The result whose turn it is, or why there is none now. Locks the job."""
        with acting(self._claim.tenant_id):
            job = lock_job(self._claim.job_id)
            if not is_ours(self._claim):
                return Wait()
            if job.state not in (JobState.FAILED, JobState.CANCELLED) or hooks.effect_stands(job):
                return Done()
            if not self._ahead and (answer := self._look_ahead(job)) is not None:
                return answer
            item = WorkItem.objects.select_related("stage").get(pk=self._ahead[0][0])
            if item.stage.name in self._take_none and plans.may_still_run(job, item.stage_id):
                return _look_again(job)
            assert self._definition is not None
            return _undo(self._claim, job, self._definition, item)

    def record(self, task: _Undo) -> None:
        """The item is COMPENSATED; its step and the whole are journalled with their last item. Locks job → item."""
        with acting(self._claim.tenant_id):
            job = lock_job(self._claim.job_id)
            if not is_ours(self._claim):
                return
            _, stage_id = self._ahead.popleft()
            more = bool(self._ahead) and self._ahead[0][1] == stage_id
            mark_undone(job, [task.item_id], Actor(ActorKind.WORKER, self._claim.worker_name), more=more)

    def _look_ahead(self, job: Job) -> Done | Wait | None:
        try:
            self._definition = registry.pinned(job.workflow, job.revision, job.configuration_digest)
        except registry.RevisionMissing as missing:
            if known.has_worker(job):
                raise  # it is left to that one
            return _blocked(job, str(missing))
        plan = _plan(job, self._definition)
        if plan is not None:
            self._take_none = {s.name for s in plan.steps if s.takes_none}
            self._ahead.extend(plans.left(job, plan.steps).values_list("pk", "stage_id")[:LOOKED_AHEAD])
        if not self._ahead:
            finish(job, plan, WORKER)
            return Done()
        return None


def _call(task: _Undo) -> None:
    step = task.definition.step_named(task.step)
    assert step is not None
    output = None if task.output is None else step.output.validate_json(task.output)
    try:
        handlers.call(task.definition.compensations[task.step].handler, task.ctx, output)
    finally:
        handlers.tidy_after(f"the compensation of {task.step} of {task.definition.name}")


def _plan(job: Job, definition: Workflow) -> Plan | None:
    """The plan of this end, made now where the process that ended the job could not; journals a block that is over."""
    if plans.is_blocked(job):
        journal.record(job=job, event="compensation.resumed", actor=WORKER, evidence={})
    plan = plans.plan_of(job)
    if not plans.is_of_this_end(job, plan):
        plan = plans.plan_of(job) if announce(job, definition) else None
    return plan


def _blocked(job: Job, why: str) -> Wait:
    if not plans.is_blocked(job):
        journal.record(job=job, event="compensation.blocked", actor=WORKER, evidence={"why": why})
    return Wait(clock.now() + LOOK_AGAIN)


def _look_again(job: Job) -> Wait:
    """A handler that ran when the job ended may still run. Look again, the less often the longer it takes."""
    now = clock.now()
    waited = (now - job.ended_at).total_seconds() if job.ended_at else 0.0
    return Wait(now + timedelta(seconds=min(max(waited / 4, 0.5), LONGEST_LOOK)))


def _undo(claim: Claim, job: Job, definition: Workflow, item: WorkItem) -> _Undo:
    saved = Checkpoint.objects.filter(item=item).order_by("-version").values_list("output", flat=True).first()
    made_with = request_key(job.workflow, job.pk, item.pk)
    ctx = Ctx(
        tenant_id=job.tenant_id,
        job_id=job.pk,
        reference=job.reference,
        item_key=item.key,
        attempt=claim.attempt,
        # The item's claim number: the same however often this is tried, another one once the item has run again.
        request_key=f"{made_with}-undo-{item.claim_no}",
        undoes=made_with,
        usage=claim.usage,
    )
    output = saved if item.state_name is ItemState.SUCCEEDED else None
    return _Undo(definition, item.pk, item.stage.name, output, ctx)


def mark_undone(job: Job, item_ids: list[int], actor: Actor, *, more: bool = False) -> None:
    """Items of a locked job become COMPENSATED; what ends with them is journalled. `more`: nothing does."""
    WorkItem.objects.filter(pk__in=item_ids).update(state=ItemState.COMPENSATED.number, finished_at=Now())
    if more:
        return
    plan = plans.plan_of(job)
    assert plan is not None, "what is undone was planned"
    stages = list(WorkItem.objects.filter(pk__in=item_ids).values_list("stage_id", flat=True).distinct())
    left = set(plans.left(job, plan.steps).order_by().values_list("stage_id", flat=True).distinct())
    for stage_id in stages:
        if stage_id not in left:
            _step_undone(job, plan, stage_id, actor)
    if not left:
        finish(job, plan, actor)


def finish(job: Job, plan: Plan | None, actor: Actor, *, left_as_they_are: int = 0) -> None:
    """Journal the end of a locked job's compensation, once."""
    if plan is None or plans.finished_at(job, plan) is not None:
        return
    evidence: dict[str, Any] = {"items": sum(s.items for s in plan.steps) - left_as_they_are}
    if left_as_they_are:
        evidence["left_as_they_are"] = left_as_they_are
    journal.record(job=job, event="compensation.finished", actor=actor, evidence=evidence)


def is_ours(claim: Claim) -> bool:
    """Whether nobody has taken the machine item over. Under the job's lock no later claim can have written anything."""
    return WorkItem.objects.filter(
        pk=claim.item_id, claim_no=claim.claim_no, state=ItemState.RUNNING.number
    ).exists()


def _step_undone(job: Job, plan: Plan, stage_id: int, actor: Actor) -> None:
    items = WorkItem.objects.filter(job=job, stage_id=stage_id, state=ItemState.COMPENSATED.number)
    step = WorkItem.objects.filter(stage_id=stage_id).select_related("stage")[0].stage
    evidence = {
        "step": step.name,
        "items": items.filter(finished_at__gte=plan.at).count(),
        "checkpoints": step.digest,
    }
    journal.record(job=job, event="step.compensated", actor=actor, evidence=evidence)
