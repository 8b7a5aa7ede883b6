"""Running steps again: what they saved is set aside, and the job goes on from the first of them to a new proposal."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows import deadlines, items, journal, rerunning, stages
from workflows.actions.advance import go_on
from workflows.asides import set_aside
from workflows.authoring.steps import Step
from workflows.kinds import NOT_STEPS
from workflows.locks import lock_job, lock_unfinished
from workflows.models import Job, Stage
from workflows.runs import MARK


class CannotRunAgain(Conflict):
    """Something stands in the way, or somebody was first; the message says what. Nothing was changed."""


class NoSuchStep(Unprocessable):
    """The job's workflow has no step of this name."""


@dataclass(frozen=True, slots=True)
class RanAgain:
    """The steps that run again, in order, by name."""

    job_id: int
    steps: tuple[str, ...]


def run_steps_again(
    *, tenant_id: int, job_id: int, person_id: int, first: str = "", seen: int, reason: str, now: datetime
) -> RanAgain:
    """Have `first` and every step behind it run again, once the proposal they led to is closed; without it all of them.

    Operators, and the submitter of the job; whoever does it has a hand in what is proposed. `seen`: the job's `reruns`
    when it was looked at. Locks job → its items that are not done, by id, then inserts → (hooks) case. What was saved is
    set aside, and what still runs of it comes too late; keys, numbers and the decisions on earlier proposals stay. A repeat
    is CannotRunAgain. Raises NoSuchJob, NotPermitted, CannotRunAgain, NoSuchStep, Unprocessable (a reason).
    """
    if not reason.strip():
        raise Unprocessable("Say why they should run again.")
    with acting(tenant_id):
        job = lock_job(job_id)
        own = [Role.SUBMITTER] if job.submitted_by_id == person_id else []
        actor = authority.require(person_id, Role.OPERATOR, *own)
        if said := rerunning.who_was_first(job, seen) or rerunning.why_not(job):
            raise CannotRunAgain(said)
        step = _first_step(job, first)
        lock_unfinished(job)
        aside = _set_aside(job, step, now)
        stages.open_step(job=job, step=step, now=now)
        evidence = {
            "stage": step.name,
            "aside": aside,
            "reason": reason,
            **deadlines.begin_again(job, now),
        }
        journal.record(job=job, event="steps.run_again", actor=actor, evidence=evidence)
        deadlines.watch(job)
    go_on(tenant_id, job_id)
    return RanAgain(job_id, tuple(aside.values()))


def _first_step(job: Job, name: str) -> Step:
    found = rerunning.choices(job)
    choice = next((c for c in found if c.step.name == name), None) if name else found[0]
    if choice is None:
        raise NoSuchStep(
            f"There is no step “{name}” in {job.workflow}: {', '.join(c.step.name for c in found)}."
        )
    if choice.why_not:
        raise CannotRunAgain(f"“{choice.step.title}” cannot be run again. {choice.why_not}")
    return choice.step


def _set_aside(job: Job, first: Step, now: datetime) -> dict[str, str]:
    job.reruns += 1
    Job.objects.filter(pk=job.pk).update(reruns=job.reruns)
    behind = Stage.objects.filter(job=job, ordinal__gte=first.ordinal).exclude(kind__in=NOT_STEPS)
    mine = list(behind.values_list("pk", flat=True))
    aside = set_aside(job=job, stages=mine, mark=f"{MARK}{job.reruns}", now=now)
    items.drop_waits(job=job)
    return aside
