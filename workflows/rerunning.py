"""Whether steps of a job can be run again, and from which one on. Needs the tenant's scope.

One rule for every door: the action asks it under the job's lock, the screens ask it to say why something is not offered.
A job whose proposal was closed is VALIDATED with all of its results saved. What a step read then may have moved on, so
a person may choose to have it read again; nothing else makes a step that is done run a second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from web.vocabulary import named
from workflows import hooks, registry
from workflows.authoring.steps import Step
from workflows.kinds import NOT_STEPS, StageKind
from workflows.models import Checkpoint, Job, JournalEntry, Stage, WorkItem
from workflows.runs import in_the_way
from workflows.states import ENDED, JobState


@dataclass(frozen=True, slots=True)
class Choice:
    """One step that could be the first to run again, with those behind it. `why_not` is empty where it can."""

    step: Step
    why_not: str


def why_not(job: Job) -> str:
    """What stands in the way of running any step of the job again, in a sentence, or nothing."""
    if job.state in ENDED:
        redrive = " A failed job is redriven as a whole." if job.state == JobState.FAILED else ""
        return f"{job.label} has ended.{redrive}"
    if job.state == JobState.RECEIVED:
        return f"{job.label} is not validated yet; no step of it has run."
    if job.state in (JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
        return f"{job.label} is {named(job.state)}: something of it may have been sent."
    if job.state != JobState.VALIDATED:
        return f"{job.label} is {named(job.state)}: its proposal is open. Steps run again only once that is closed."
    if job.cancel_requested_at is not None:
        return f"{job.cancel_requested_by} asked to cancel {job.label}."
    if job.held_at is not None:
        return f"{job.held_by} holds {job.label}. Lift the hold first."
    if not job.reruns and not has_draft(job.pk):
        return f"{job.label} has not come to a proposal yet."
    try:
        registry.pinned(job.workflow, job.revision, job.configuration_digest)
    except registry.RevisionMissing as missing:
        return f"{missing} Deploy it to run steps again, or migrate the job."
    return hooks.why_not_redrive(job)


def choices(job: Job) -> list[Choice]:
    """The steps in order, each with what stands in the way of beginning with it; of a job that `why_not` is silent on."""
    definition = registry.pinned(job.workflow, job.revision, job.configuration_digest)
    stages = Stage.objects.filter(job=job).exclude(kind__in=NOT_STEPS)
    done = {name: closed_at is not None for name, closed_at in stages.values_list("name", "closed_at")}
    begun = WorkItem.objects.filter(job=job, stage__name__in=definition.compensations, attempts__gt=0)
    made = set(begun.values_list("stage__name", flat=True)) if definition.compensations else set()
    return [Choice(step, in_the_way(definition, done, made, step)) for step in definition.steps]


def who_was_first(job: Job, seen: int) -> str:
    """For the second of two people who look at the same job: `seen` is how often its steps had been run again then."""
    if job.reruns == seen:
        return ""
    last = JournalEntry.objects.filter(job=job, event="steps.run_again").order_by("-sequence").first()
    if last is None:
        return f"No steps of {job.label} have been run again yet. Look at how it is now."
    return f"{last.actor_name} has run steps of {job.label} again since you looked. Look at how it is now."


def has_draft(job_id: int) -> bool:
    """Whether the job has come to a draft, and its steps were not run again since."""
    return Checkpoint.objects.filter(item__job=job_id, item__stage__kind=StageKind.PROPOSE).exists()
