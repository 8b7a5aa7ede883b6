"""Looking at what a migration would do to one job, in full: every conversion is made and checked, nothing is changed.

Runs in the tenant's scope, outside of any lock: whoever applies the plan compares the job with what was seen here.
"""

from __future__ import annotations

import json

from django.db.models import Count

from access.refusals import NotFound
from web.vocabulary import named
from workflows import hooks, inputs, registry, submissions
from workflows.authoring import Ctx, Workflow
from workflows.authoring.migrations import Migration
from workflows.engine.handling import problems_of
from workflows.kinds import NOT_STEPS, StageKind
from workflows.migrating.plan import InputFate, Plan, Shape
from workflows.migrating.results import Unfit, converted
from workflows.migrating.steps import look_at_steps
from workflows.models import Job, JournalEntry, Stage, WorkItem
from workflows.states import ItemState, JobState

MIGRATABLE = (JobState.RECEIVED, JobState.VALIDATED)


class NoMigration(NotFound):
    """No revision that is loaded here declares a migration from this one; the message says which there are."""


def targets_of(job: Job) -> list[Workflow]:
    """The loaded revisions that declare a migration from the job's, the one that new jobs take first."""
    found = [w for (name, _), w in registry.workflows().items() if name == job.workflow]
    return sorted((w for w in found if w.migration_from(job.revision)), key=lambda w: not w.current)


def target_named(workflow: str, *, from_revision: str, to: str) -> Workflow:
    """A loaded revision with its migration. Raises NoMigration."""
    found = registry.workflows().get((workflow, to))
    if found is None:
        loaded = ", ".join(r for name, r in registry.workflows() if name == workflow) or "none"
        raise NoMigration(f"{workflow} revision {to} is not loaded here. Loaded: {loaded}.")
    if found.migration_from(from_revision) is None:
        declared = ", ".join(m.from_revision for m in found.migrations) or "none"
        raise NoMigration(
            f"{workflow} revision {to} declares no migration from revision {from_revision}. Declared: {declared}."
        )
    return found


def plan_migration(job: Job, target: Workflow) -> Plan:
    """What would become of the job. Needs the tenant's scope and a transaction that holds nothing."""
    migration = target.migration_from(job.revision)
    assert migration is not None, "asked by target_named or targets_of"
    plan = Plan(
        job_id=job.pk,
        label=job.label,
        state=job.state,
        from_revision=job.revision,
        target=target,
        version=job.version,
        shape=shape_of(job),
        why=why_not(job, target),
    )
    if not plan.why:
        plan.input = _input(job, target, migration)
        look_at_steps(job, migration, plan)
    return plan


def why_not(job: Job, target: Workflow) -> str:
    """Why this job is not migrated at all, in a sentence, or nothing. Asked again under the job's lock."""
    if job.state not in MIGRATABLE:
        return f"{job.label} is {named(job.state)}: only a job without a proposal is migrated."
    rows = JournalEntry.objects.filter(job=job, event="job.migrated").values_list("evidence", flat=True)
    if target.revision in {json.loads(evidence)["from"] for evidence in rows}:
        return f"{job.label} was on revision {target.revision} before; it does not go back."
    return hooks.why_not_migrate(job)


def shape_of(job: Job) -> Shape:
    """The job's steps as they are: enough to see that something else has happened meanwhile."""
    stages = Stage.objects.filter(job=job).exclude(kind__in=NOT_STEPS).order_by("pk")
    rows = WorkItem.objects.filter(job=job, state=ItemState.SUCCEEDED.number).values_list("stage")
    done = dict(rows.annotate(n=Count("pk")).order_by())
    return tuple(
        (s.pk, s.closed_at is not None, 0 if s.kind == StageKind.EACH else done.get(s.pk, 0)) for s in stages
    )


def _input(job: Job, target: Workflow, migration: Migration) -> InputFate:
    text = inputs.text_of(job.pk)
    try:
        new = text
        if migration.inputs:
            new = submissions.check(target, converted(migration.inputs[0], text))
        problems = [(p["field"], p["message"]) for p in problems_of(target, _ctx(job), new)]
    except Unfit as unfit:
        return InputFate(why=f"{unfit}.")
    except submissions.InvalidSubmission as invalid:
        problems = [(p.field, p.message) for p in invalid.problems]
    if problems:
        return InputFate(
            why="; ".join(f"{place or 'the whole'}: {what}" for place, what in problems[:3]) + "."
        )
    return InputFate() if new == text else InputFate(text=new, digest=submissions.digest(new))


def _ctx(job: Job) -> Ctx:
    return Ctx(
        tenant_id=job.tenant_id,
        job_id=job.pk,
        reference=job.reference,
        item_key="1",
        attempt=1,
        request_key=f"{job.workflow}-{job.pk}-migrate",
    )
