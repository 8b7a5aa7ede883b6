"""Redrive: a failed job goes on from what was saved, where nothing of it was ever applied."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from web.vocabulary import named
from workflows import deadlines, hooks, journal, references, registry
from workflows.compensation import plan
from workflows.kinds import NOT_STEPS
from workflows.locks import lock_job
from workflows.models import Checkpoint, Job, JournalEntry, Stage, StageKind, WorkItem
from workflows.states import ItemState, JobState
from workflows.stopped import check_attempts, put_back


class NotRedrivable(Conflict):
    """The job has not failed (any more), was never valid, or left something behind; the message says what."""


@dataclass(frozen=True, slots=True)
class Redriven:
    """`items` go on; none where the job had come to a proposal, whose draft is then frozen anew."""

    job_id: int
    items: int
    job_state: str


def redrive_job(
    *, tenant_id: int, job_id: int, person_id: int, attempts: int, reason: str, now: datetime
) -> Redriven:
    """FAILED → VALIDATED: what the end had cancelled is tried again up to `attempts` times; every checkpoint is kept.

    A job that had come to a proposal gets a new one of the same draft, for a new approval; operations of the old stay as
    they are. A deadline that has passed starts again, a hold stays. Locks job → items, then as freezing does. A repeat
    is NotRedrivable. Raises NoSuchJob, NotPermitted, NotRedrivable, Unprocessable (1 to 20 attempts; a reason).
    """
    with acting(tenant_id):
        return redrive_job_inside(
            job_id=job_id, person_id=person_id, attempts=attempts, reason=reason, now=now
        )


def redrive_job_inside(
    *, job_id: int, person_id: int, attempts: int, reason: str, now: datetime, bulk: int = 0
) -> Redriven:
    """The same inside an action's transaction, which holds no case's lock."""
    check_attempts(attempts)
    if not reason.strip():
        raise Unprocessable("Say why it should work now.")
    job = lock_job(job_id)
    actor = authority.require(person_id, Role.OPERATOR)
    if said := why_not_redrive(job) or references.take_back(job):
        raise NotRedrivable(said)
    stages = _stages_cut_short(job)
    items = _items_cancelled(stages)
    evidence: dict[str, Any] = {
        "reason": reason,
        "attempts": attempts,
        "stages": [s.name for s in stages],
        "items": len(items),
        **deadlines.begin_again(job, now),
        **journal.part_of(bulk),
    }
    journal.transition(job=job, to=JobState.VALIDATED, event="job.redriven", actor=actor, evidence=evidence)
    if stages:
        Stage.objects.filter(pk__in=[s.pk for s in stages]).update(closed_at=None, met_at=None)
        put_back(items=items, attempts=attempts)
    else:
        _propose_anew(job, now)
    deadlines.watch(job)
    return Redriven(job.pk, len(items), job.state)


def why_not_redrive(job: Job) -> str:
    """What stands in the way of redriving the job, in a sentence, or nothing. Asked again under the job's lock."""
    if job.state != JobState.FAILED:
        return _who_was_first(job) or f"{job.label} is {named(job.state)}; only a failed job is redriven."
    if not JournalEntry.objects.filter(job=job, to_state=JobState.VALIDATED).exists():
        return f"{job.label} was never valid: submit it anew, with another input."
    if job.cancel_requested_at is not None:
        return f"{job.cancel_requested_by} asked to cancel {job.label}."
    if said := _why_not_after_undoing(job) or hooks.why_not_redrive(job):
        return said
    return "" if _stages_cut_short(job) or _draft(job) else f"Nothing of {job.label} is left to do."


def _who_was_first(job: Job) -> str:
    """For the second of two people who redrive at once."""
    last = JournalEntry.objects.filter(job=job).exclude(to_state="").order_by("-sequence").first()
    redriven = JournalEntry.objects.filter(job=job, event="job.redriven").order_by("-sequence").first()
    if redriven is None or last is None or last.sequence > redriven.sequence + 2:
        return ""
    return f"{redriven.actor_name} has redriven {job.label} already; it is {named(job.state)} now."


def _why_not_after_undoing(job: Job) -> str:
    try:
        plan.refuse_redrive(job)
    except plan.StillUndoing as still:
        return str(still)
    if WorkItem.objects.filter(job=job, state=ItemState.COMPENSATED.number).exists():
        return f"What steps of {job.label} made was undone when it failed: submit it anew."
    return ""


def _stages_cut_short(job: Job) -> list[Stage]:
    """Stages that were not done when the job ended: those that were have a digest."""
    cut = Stage.objects.filter(job=job, closed_at__isnull=False, digest="")
    return list(cut.exclude(kind__in=NOT_STEPS).order_by("ordinal"))


def _items_cancelled(stages: list[Stage]) -> list[int]:
    """Their items that the end cancelled. They need no lock: nobody else touches one while the job is locked."""
    found = WorkItem.objects.filter(stage__in=stages, state=ItemState.CANCELLED.number)
    return list(found.order_by("pk").values_list("pk", flat=True)) if stages else []


def _propose_anew(job: Job, now: datetime) -> None:
    try:
        hooks.freeze_proposal(job, _draft(job), now)
    except registry.RevisionMissing as missing:
        raise NotRedrivable(f"{missing} Deploy it to propose anew, or migrate the job.") from missing


def _draft(job: Job) -> str:
    saved = Checkpoint.objects.filter(item__job=job, item__stage__kind=StageKind.PROPOSE)
    return str(saved.order_by("-version", "-pk").values_list("output", flat=True).first() or "")
