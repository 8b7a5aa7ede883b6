"""Ending a wait, inside an action's transaction. The caller holds the job's lock (order: job → items → expectations).

A wait is ended by what came for it (here), by its time (the engine, which claims the item then), or with its item
(`items.drop_waits`). The job's lock carries all three: the batch that records a result holds the job too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.db import connection
from django.db.models import Max

from access.roles import Actor
from workflows import journal, registry, submissions
from workflows.authoring import Problem
from workflows.engine import keys
from workflows.engine.outcomes import NotStorable, encode
from workflows.models import Checkpoint, Expectation, Job, Settled, WorkItem
from workflows.states import OPEN_ITEM_STATES, ItemState
from workflows.submissions import InvalidSubmission

JOURNALLED_MISFITS = 10
_OPEN = tuple(s.number for s in OPEN_ITEM_STATES)


class Misfit(InvalidSubmission):
    """What came is not of the type that is waited for: every wrong field. The wait goes on."""


def typed(job: Job, stage: str, value: Any) -> tuple[str, str]:
    """A parsed value as the stage's checkpoint (canonical JSON and digest), by the revision that the job pinned.

    Raises Misfit, or RevisionMissing where this process does not have that revision.
    """
    workflow = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    step = workflow.step_named(stage)
    if step is None:
        raise registry.RevisionMissing(f"{job.workflow} has no step {stage}.")
    problems = submissions.problems_of(value) or submissions.misfits(step.result_type, value)
    if problems:
        raise Misfit(problems)
    try:
        output, digest = encode(step.output, step.result_type.model_validate_json(json.dumps(value)))
        keys.check(workflow, step, output)
    except (NotStorable, keys.UnusableKeys) as error:
        raise Misfit([Problem("", str(error))]) from error
    return output, digest


def takes(item: WorkItem, expectation: Expectation, came_at: datetime) -> bool:
    """Whether what came then, by the database's clock, ends this wait. At the very moment it is due it is too late."""
    in_time = expectation.due_at is None or came_at < expectation.due_at
    return expectation.settled_at is None and item.state in _OPEN and in_time


def settle(
    *,
    job: Job,
    item: WorkItem,
    expectation: Expectation,
    output: tuple[str, str],
    event: str,
    actor: Actor,
    evidence: Mapping[str, Any],
    now: datetime,
) -> None:
    """Make what came the item's checkpoint and journal it. All three rows are locked, and `takes` was asked.

    A worker that runs the item at this moment (its time was up, and then the clock was set back) finds it gone.
    """
    text, digest = output
    newest = Checkpoint.objects.filter(item=item).aggregate(n=Max("version"))["n"] or 0
    Checkpoint.objects.create(
        tenant_id=job.tenant_id, item=item, version=newest + 1, output=text, digest=digest, created_at=now
    )
    WorkItem.objects.filter(pk=item.pk).update(
        state=ItemState.SUCCEEDED.number, finished_at=now, next_attempt_at=None
    )
    Expectation.objects.filter(pk=expectation.pk).update(
        settled_at=now, settled_how=Settled.CAME, settled_by=actor.name
    )
    told = {"item": item.pk, "stage": item.stage.name, "key": item.key, "value": digest, **evidence}
    journal.record(job=job, event=event, actor=actor, evidence=told)


def note_misfit(*, job: Job, expectation: Expectation, misfit: Misfit, actor: Actor, now: datetime) -> None:
    """Keep what was wrong with something that came, for whoever wonders why the wait goes on. The first ten of a wait
    are journalled too. The expectation is locked."""
    count = expectation.misfits + 1
    Expectation.objects.filter(pk=expectation.pk).update(
        misfits=count, misfit=f"{actor.name}: {misfit}"[:500], misfit_at=now
    )
    if count <= JOURNALLED_MISFITS:
        fields = [p.field for p in misfit.problems][:20]
        evidence = {"item": expectation.item_id, "from": actor.name, "fields": fields, "count": count}
        journal.record(job=job, event="event.misfit", actor=actor, evidence=evidence)


def database_now() -> datetime:
    """The time of the statement by the database's clock, which all waits are measured by."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT statement_timestamp()")
        (now,) = cursor.fetchone()
    assert isinstance(now, datetime)
    return now


def digest_of(text: str) -> str:
    """SHA-256 of a text, in hexadecimal: what the journal holds of keys and questions."""
    return hashlib.sha256(text.encode()).hexdigest()
