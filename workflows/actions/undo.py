"""A person's word on what could not be undone by itself: one result, all that is left, or that it stays."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from access import authority
from access.refusals import Conflict
from access.roles import Actor, Role
from workflows import journal, machines
from workflows.compensation import plan as plans
from workflows.compensation.beginning import KEY
from workflows.compensation.machine import finish, mark_undone
from workflows.compensation.plan import MACHINE, Plan, Standing
from workflows.locks import lock_items, lock_job
from workflows.models import Job, WorkItem
from workflows.states import ItemState


class NothingToUndo(Conflict):
    """Nothing waits for this (any more)."""


class Undone(StrEnum):
    """What a person can say of it. The values are read by people."""

    THIS = "this one was undone by hand"
    REST = "all that is left was undone by hand"
    STANDS = "what is left stays as it is"


@dataclass(frozen=True, slots=True)
class Recorded:
    """How many results the word was about, and whether the machine goes on with others."""

    items: int
    goes_on: bool


def record_undone_inside(*, job_id: int, person_id: int, how: Undone, reason: str) -> Recorded:
    """Record what became of results whose compensation stopped, inside an action's transaction that holds no case's lock.

    `THIS` is the one whose handler failed; the machine goes on with the others. Locks job → the machine's item.
    Raises NotPermitted, NothingToUndo.
    """
    job = lock_job(job_id)
    actor = authority.require(person_id, Role.OPERATOR)
    machine = _waiting_machine(job)
    plan = plans.plan_of(job)
    left = [] if plan is None else list(plans.left(job, plan.steps).values_list("pk", flat=True))
    told = left[:1] if how is Undone.THIS else left
    if how is Undone.THIS and not told:
        raise NothingToUndo("It is not known here what would be undone next.")
    evidence = {"how": how.value, "items": len(told), "reason": reason}
    journal.record(job=job, event="compensation.recorded", actor=actor, evidence=evidence)
    if plan is not None and how is Undone.STANDS:
        finish(job, plan, actor, left_as_they_are=len(left))
    elif plan is not None:
        _mark(job, plan, told, actor)
    goes_on = len(told) < len(left)
    _leave(job, machine, goes_on=goes_on)
    return Recorded(items=len(told), goes_on=goes_on)


def _waiting_machine(job: Job) -> WorkItem:
    found = plans.machine_item(job)
    if found is None or plans.standing_of(job) not in (Standing.STOPPED, Standing.BLOCKED):
        raise NothingToUndo("Nothing waits to be undone by hand (any more).")
    (machine,) = lock_items([found.pk])
    if machine.state_name is ItemState.RUNNING:
        raise NothingToUndo("It is being tried at this moment. Look again.")
    return machine


def _mark(job: Job, plan: Plan, told: list[int], actor: Actor) -> None:
    if told:
        mark_undone(job, told, actor)
    else:
        finish(job, plan, actor)


def _leave(job: Job, machine: WorkItem, *, goes_on: bool) -> None:
    if goes_on:
        machines.ring(job=job, machine=MACHINE, key=KEY)
    else:
        WorkItem.objects.filter(pk=machine.pk).update(
            state=ItemState.CANCELLED.number, next_attempt_at=None, reported_at=None
        )
