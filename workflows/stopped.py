"""Items that stopped: when a person may do something about one, and putting items back to work.

One rule for every door: the actions ask it under their locks, the screens ask it to say why something is not offered.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db import connection

from access.refusals import Conflict, Unprocessable
from workflows import registry
from workflows.authoring.steps import Step
from workflows.locks import lock_items, lock_job
from workflows.models import Job, StageKind, WorkItem
from workflows.states import ENDED, STUCK_ITEM_STATES, ItemState, JobState

MOST_ATTEMPTS = 20
_SMALLINT = 32_767


class NothingToRetry(Conflict):
    """The item is not stopped (any more), or its stage or its job is done with."""


class ChangedMeanwhile(Conflict):
    """The item was claimed since it was looked at, so it stopped for another reason than was seen."""


def why_not_again(job: Job, item: WorkItem) -> str:
    """What stands in the way of sending a stopped item on, in a sentence, or nothing."""
    if item.state_name not in STUCK_ITEM_STATES:
        words = item.state_name.lower().replace("_", " ")
        return f"This step is {words}; it has not stopped."
    if item.stage.kind == StageKind.MACHINE:
        return ""
    if job.state in ENDED:
        redrive = " A failed job is redriven as a whole." if job.state == JobState.FAILED else ""
        return f"{job.label} has ended.{redrive}"
    if item.stage.closed_at is not None:
        return "The job went on without it: enough others of its stage had succeeded."
    return ""


def why_not_skip(job: Job, item: WorkItem) -> str:
    """What stands in the way of going on without a stopped item, or nothing."""
    if (said := why_not_again(job, item)) or (said := why_no_definition(job, item)):
        return said
    step = step_of(job, item)
    if item.stage.kind != StageKind.EACH:
        return "There is no going on without it: only an item of a fan-out can be left out."
    if not step.skippable:
        return f"{job.workflow} does not allow “{step.title}” to go on without an item."
    return ""


def why_not_correct(job: Job, item: WorkItem) -> str:
    """What stands in the way of correcting what a stopped item works on, or nothing."""
    if said := why_not_again(job, item):
        return said
    if item.stage.kind == StageKind.VALIDATE:
        return (
            "A job’s input stays as it was submitted; cancel the job and submit another with the right input."
        )
    if item.stage.kind == StageKind.MACHINE:
        return "It works on what was approved, which nobody changes."
    if said := why_no_definition(job, item):
        return said
    return "" if step_of(job, item).parameters else "This step is given nothing that could be corrected."


def why_no_definition(job: Job, item: WorkItem) -> str:
    """Why this process cannot say what the item's step is, or nothing."""
    try:
        step_of(job, item)
    except registry.RevisionMissing as missing:
        return f"{missing} What the step allows can be said only where it is."
    return ""


def step_of(job: Job, item: WorkItem) -> Step:
    """The item's step in the definition that its job pinned. Raises RevisionMissing."""
    step = registry.pinned(job.workflow, job.revision, job.configuration_digest).step_named(item.stage.name)
    if step is None:
        raise registry.RevisionMissing(f"{job.workflow} has no step {item.stage.name}.")
    return step


def lock_stopped(item_id: int, *, seen: int | None = None) -> tuple[Job, WorkItem]:
    """The item's job and the item, locked in this order. `seen`: the number of its last claim when it was looked at.

    Raises NothingToRetry where there is no such item, ChangedMeanwhile where it was claimed since.
    """
    job_id = WorkItem.objects.filter(pk=item_id).values_list("job_id", flat=True).first()
    if job_id is None:
        raise NothingToRetry("There is no such step here.")
    job = lock_job(job_id)
    (item,) = lock_items([item_id])
    if seen is not None and item.claim_no != seen:
        raise ChangedMeanwhile("It has been tried again since it was looked at. Look at how it is now.")
    return job, item


def check_attempts(attempts: int) -> None:
    """Raises Unprocessable unless it is a number of attempts that may be granted at once."""
    if not 1 <= attempts <= MOST_ATTEMPTS:
        raise Unprocessable(f"Grant between 1 and {MOST_ATTEMPTS} attempts.")


def put_back(*, items: Sequence[int], attempts: int) -> None:
    """Have locked items claimed again, up to `attempts` more times, as if they began anew.

    Their limit on elapsed time starts again, and of the workers that stopped while they ran them at most one is
    remembered: they stay suspects, and may stop that many more. Checkpoints, attempts and claim numbers stay.
    """
    assert connection.in_atomic_block
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workflows_workitem SET state = %s, attempts_limit = least(attempts + %s, %s),"
            " deaths = least(deaths, 1), first_started_at = NULL, next_attempt_at = NULL, reported_at = NULL,"
            " finished_at = NULL WHERE id = ANY(%s)",
            [ItemState.READY.number, attempts, _SMALLINT, list(items)],
        )
        cursor.execute("NOTIFY counterfoil_work")
