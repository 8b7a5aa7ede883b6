"""Migrating a job to a later revision: tried in full first, then done in one transaction."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting, reading
from workflows import journal, registry
from workflows.authoring import Workflow
from workflows.locks import NoSuchJob, lock_job
from workflows.migrating.applying import MovedMeanwhile, Unfit, apply
from workflows.migrating.plan import Plan
from workflows.migrating.planning import plan_migration, target_named
from workflows.models import Job, Stage

LOOKS = 5
"""So often a job that moves is looked at anew, each time after twice as long."""
FIRST_PAUSE = 0.05


class CannotMigrate(Conflict):
    """Something stands in the way; the message says what. The job is as it was."""


class NotAsShown(Conflict):
    """What would be done is not what was shown to whoever asked for it."""


@dataclass(frozen=True, slots=True)
class Migrated:
    """A job on its new revision."""

    job_id: int
    from_revision: str
    to: str
    steps: dict[str, str]


@contextmanager
def look(*, tenant_id: int, job_id: int, target: Workflow) -> Iterator[Plan]:
    """What would become of a job. Changes nothing, but calls the migration's functions. Raises NoSuchJob."""
    with reading(tenant_id):
        job = Job.objects.filter(pk=job_id).first()
        if job is None:
            raise NoSuchJob(f"There is no job {job_id} here.")
        if job.workflow != target.name:
            raise CannotMigrate(f"{job.label} is a job of {job.workflow}.")
        if target.migration_from(job.revision) is None:
            raise CannotMigrate(
                f"{job.label} is on revision {job.revision}; nothing leads from there to revision {target.revision}."
            )
        plan = plan_migration(job, target)
    try:
        yield plan
    finally:
        plan.close()


def shown(plan: Plan) -> str:
    """A digest over what a preview says, so that what is done is what was shown. Counts may change meanwhile."""
    lines = [(f.name, f.was, f.becomes.value) for f in plan.steps]
    digest = registry.digests()[plan.target.name, plan.target.revision]
    said = json.dumps([plan.from_revision, digest, plan.input.becomes.value, lines])
    return hashlib.sha256(said.encode()).hexdigest()


def migrate_job(
    *,
    tenant_id: int,
    job_id: int,
    person_id: int,
    from_revision: str,
    to: str,
    reason: str,
    now: datetime,
    seen: str = "",
) -> Migrated:
    """Take a job in RECEIVED or VALIDATED from one revision to another, by the migration that the other declares.

    An operator may. `seen`: what `shown` gave for the preview that they decided on. Locks job → items → (hooks) cases.
    What runs is set aside, and its result comes too late; everything that was saved stays. A job that was held for its
    old revision goes on. A repeat is CannotMigrate. Raises NoMigration, NoSuchJob, NotPermitted, CannotMigrate,
    NotAsShown, MovedMeanwhile, Unprocessable (a reason); then nothing was done.
    """
    if not reason.strip():
        raise Unprocessable("Say why it is migrated.")
    with reading(tenant_id):
        authority.require(person_id, Role.OPERATOR)
        workflow = Job.objects.filter(pk=job_id).values_list("workflow", flat=True).first()
    if workflow is None:
        raise NoSuchJob(f"There is no job {job_id} here.")
    target = target_named(workflow, from_revision=from_revision, to=to)
    for number in range(LOOKS):
        with look(tenant_id=tenant_id, job_id=job_id, target=target) as plan:
            _refuse(plan, from_revision, seen)
            try:
                return _apply(tenant_id, plan, person_id, reason, now)
            except Unfit as unfit:
                raise CannotMigrate(f"{plan.label}: {unfit}. Nothing was changed.") from unfit
            except MovedMeanwhile:
                if number == LOOKS - 1:
                    raise
        threading.Event().wait(FIRST_PAUSE * 2**number)
    raise AssertionError("the last look returns or raises")


def _refuse(plan: Plan, from_revision: str, seen: str) -> None:
    if plan.from_revision != from_revision:
        raise CannotMigrate(f"{plan.label} is on revision {plan.from_revision}. Nothing was changed.")
    if not plan.possible:
        raise CannotMigrate(f"{plan.label}: {' '.join(plan.problems)} Nothing was changed.")
    if seen and shown(plan) != seen:
        raise NotAsShown(
            f"{plan.label} has gone on since this was shown. Look at it again; nothing was changed."
        )


def _apply(tenant_id: int, plan: Plan, person_id: int, reason: str, now: datetime) -> Migrated:
    with acting(tenant_id):
        job = lock_job(plan.job_id)
        actor = authority.require(person_id, Role.OPERATOR)
        before = job.configuration_digest
        done = apply(job, plan, now)
        _journal(job, plan, actor, before, reason, done)
        return Migrated(job.pk, plan.from_revision, plan.target.revision, done["steps"])


def _journal(job: Job, plan: Plan, actor: Actor, before: str, reason: str, done: Mapping[str, Any]) -> None:
    """Names, digests and counts, of which a replay makes the stages again. Never a value."""
    kept = Stage.objects.filter(pk__in=[k.stage_id for k in plan.keeps]).exclude(digest="")
    converted = {"input_converted": plan.input.digest} if plan.input.digest else {}
    journal.record(
        job=job,
        event="job.migrated",
        actor=actor,
        evidence={
            "from": plan.from_revision,
            "revision": plan.target.revision,
            "configuration_before": before,
            "configuration": job.configuration_digest,
            "checkpoints": dict(kept.values_list("name", "digest")),
            "reason": reason,
            **converted,
            **done,
        },
    )
