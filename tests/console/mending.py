"""Jobs of `tests.workflows.mending` put in place where somebody has something to correct, without running anything."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from django.utils import timezone

from access.models import Person, Tenant
from access.roles import WORKER
from access.tenancy import acting
from tests.workflows.mending import letters
from workflows import journal, stages
from workflows.actions.submit import submit_job
from workflows.authoring.steps import Step
from workflows.locks import lock_job
from workflows.models import Checkpoint, ItemInput, Job, Stage, WorkItem
from workflows.states import ItemState, JobState

VALIDATED = "input.validated"


def letter(tenant: Tenant, person: Person, *lines: str, closing: str = "fine") -> int:
    """A VALIDATED job whose first step has given its lines and whose second waits for them."""
    job_id = submit_job(
        tenant_id=tenant.pk,
        workflow="test-letters",
        value={"lines": list(lines), "closing": closing},
        submission_key=secrets.token_hex(8),
        person_id=person.pk,
        source="test",
        now=timezone.now(),
    ).job_id
    with acting(tenant.pk):
        job = lock_job(job_id)
        WorkItem.objects.filter(job=job).update(state=ItemState.SUCCEEDED.number)
        Stage.objects.filter(job=job).update(closed_at=timezone.now(), digest="0" * 64)
        journal.transition(job=job, to=JobState.VALIDATED, event=VALIDATED, actor=WORKER, evidence={})
        split, read = letters.steps[:2]
        give(job, split, {"lines": [{"text": text, "weight": 0.5} for text in lines]})
        stages.open_step(job=job, step=read, now=timezone.now())
    return job_id


def give(job: Job, step: Step, *outputs: Any) -> Stage:
    """A stage that is done, with what its items gave."""
    stage = Stage.objects.filter(job=job, name=step.name).first()
    stage = stage or stages.open_step(job=job, step=step, now=timezone.now())
    for item, output in zip(WorkItem.objects.filter(stage=stage).order_by("ordinal"), outputs, strict=True):
        text = json.dumps(output, sort_keys=True, separators=(",", ":"))
        digest = hashlib.sha256(text.encode()).hexdigest()
        Checkpoint.objects.create(
            tenant_id=job.tenant_id, item=item, output=text, digest=digest, created_at=timezone.now()
        )
    WorkItem.objects.filter(stage=stage).update(state=ItemState.SUCCEEDED.number, finished_at=timezone.now())
    Stage.objects.filter(pk=stage.pk).update(closed_at=timezone.now(), digest="1" * 64)
    return stage


def at_the_third_step(tenant: Tenant, person: Person, *lines: str, closing: str = "fine") -> int:
    """The same job once its lines are read."""
    job_id = letter(tenant, person, *lines, closing=closing)
    with acting(tenant.pk):
        job = lock_job(job_id)
        give(job, letters.steps[1], *({"text": text.upper()} for text in lines))
        stages.open_step(job=job, step=letters.steps[2], now=timezone.now())
    return job_id


def stop(tenant: Tenant, job_id: int, stage: str, key: str = "1") -> WorkItem:
    """The item as it is once it has stopped."""
    with acting(tenant.pk):
        found = WorkItem.objects.filter(job=job_id, stage__name=stage, key=key)
        found.update(state=ItemState.REFUSED.number, attempts=1, finished_at=timezone.now())
        return found.select_related("stage").get()


def versions(tenant: Tenant, item: WorkItem) -> list[str]:
    """What was kept as an item's input, oldest first."""
    from access.tenancy import reading

    with reading(tenant.pk):
        return list(ItemInput.objects.filter(item=item).order_by("version").values_list("value", flat=True))
