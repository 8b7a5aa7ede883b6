"""Correcting what a stopped item works on, and trying it again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows import arguments, corrections, journal
from workflows.corrections import Correction
from workflows.models import ItemInput, Job, StageKind, WorkItem
from workflows.stopped import check_attempts, lock_stopped, put_back, step_of, why_not_correct


class CannotCorrect(Conflict):
    """The item is not stopped (any more), or what it works on is not a person's to change."""


@dataclass(frozen=True, slots=True)
class Corrected:
    """The item that will be tried again on another input, and the version of that."""

    job_id: int
    item_id: int
    version: int
    attempts: int


def correct_item(
    *,
    tenant_id: int,
    item_id: int,
    person_id: int,
    text: str,
    attempts: int,
    reason: str,
    now: datetime,
    seen: int | None = None,
) -> Corrected:
    """Try a stopped item again on a corrected input; the old one is kept. Locks job → item.

    `text` is JSON: the element of a fan-out's item, or an object of those parameters of a single step that change.
    `seen`: the number of the item's last claim on the screen. Whoever corrects has a hand in what is proposed. Raises
    NotPermitted, NothingToRetry, ChangedMeanwhile, CannotCorrect, InvalidCorrection, NothingCorrected, Unprocessable (1 to
    20 attempts; a reason).
    """
    check_attempts(attempts)
    if not reason.strip():
        raise Unprocessable("Say what was wrong with it.")
    with acting(tenant_id):
        job, item = lock_stopped(item_id, seen=seen)
        actor = authority.require(person_id, Role.OPERATOR)
        if said := why_not_correct(job, item):
            raise CannotCorrect(said)
        kept = arguments.latest_input(item)
        version = kept.version + 1 if kept is not None else 1
        correction = check(job=job, item=item, text=text)
        ItemInput.objects.create(tenant_id=job.tenant_id, item=item, version=version, value=correction.value)
        put_back(items=[item.pk], attempts=attempts)
        journal.record(
            job=job,
            event="item.corrected",
            actor=actor,
            evidence={
                "item": item.pk,
                "stage": item.stage.name,
                "key": item.key,
                "version": version,
                "fields": list(correction.fields),
                "before": correction.before,
                "after": correction.after,
                "attempts": attempts,
                "reason": reason,
            },
        )
        return Corrected(job.pk, item.pk, version, attempts)


def check(*, job: Job, item: WorkItem, text: str) -> Correction:
    """What the text would change of an item's input. Raises InvalidCorrection, NothingCorrected."""
    step, latest = step_of(job, item), arguments.latest_input(item)
    kept = latest.value if latest is not None else ""
    if item.stage.kind == StageKind.EACH:
        return corrections.of_element(step, before=kept or "null", given=text)
    named = set(corrections.names_in(text))
    before = {
        p.name: arguments.text_of(job=job, item=item, step=step, parameter=p)
        for p in step.parameters
        if p.name in named
    }
    return corrections.of_arguments(step, kept=kept, before=before, given=text)
