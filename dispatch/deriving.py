"""The one function that derives a job's state from its operations, from READY_TO_COMMIT on.

Called after every change of an operation, in that change's transaction, with the job locked. What the actor may not
do by the table of states is left for who may: the worker, for one, never reopens a job that waits for an operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet, Subquery

from access.roles import Actor
from access.statements import Values
from dispatch import locks
from dispatch.joining import Derived, Standing, derive
from dispatch.models import Operation, label_of
from dispatch.moving import move
from dispatch.states import OperationState
from workflows import journal, states
from workflows.models import Job
from workflows.states import JobState

S = OperationState
UNDER_WAY = (JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION)

AfterChange = Callable[[Job, Actor, datetime], None]
_after_change: list[AfterChange] = []


def after_change(tell: AfterChange) -> None:
    """Have a room above told after every change of an operation, in its transaction, job and operations locked.

    The journal's hooks cannot: a change that leaves the job where it is writes no transition.
    """
    _after_change.append(tell)


def derive_job(job: Job, actor: Actor, now: datetime) -> None:
    """Move a locked job to where its operations say it belongs, journalling the fate of each.

    Does nothing for a job before READY_TO_COMMIT or ended, that is already there, or where the actor's
    kind may not make the move. Rooms above are told in any case (`after_change`).
    """
    _move_job(job, actor, now)
    for tell in _after_change:
        tell(job, actor, now)


def _move_job(job: Job, actor: Actor, now: datetime) -> None:
    if job.state not in (JobState.READY_TO_COMMIT, *UNDER_WAY):
        return
    cancelled = job.cancel_requested_at is not None
    derived = derive(_standings(job), cancelled=cancelled)
    if job.state == JobState.READY_TO_COMMIT and derived.state not in UNDER_WAY:
        return  # it goes on from there by a send, or by what its approval says
    if derived.state == job.state or (job.state, derived.state, actor.kind.value) not in states.ALLOWED:
        return
    if derived.state in (JobState.FAILED, JobState.CANCELLED):
        _withdraw_stopped(current_operations(locks.lock_operations(job)), now)
    journal.transition(
        job=job,
        to=derived.state,
        event=derived.event,
        actor=actor,
        evidence=_evidence(job, derived, cancelled=cancelled),
    )


def _standings(job: Job) -> list[Standing]:
    """How the job's operations stand, each way once: a set of hundreds is looked at after each of its sends."""
    return [Standing(state, step) for state, step in _STANDINGS.all(job.pk)]


def current(job: Job | Any) -> QuerySet[Operation]:
    """The operations of the job's latest proposal that has any, in order; the query of `current_operations`.

    Of a job, its id, or the slot of a statement that is made once.
    """
    mine = Operation.objects.filter(job=job)
    latest = mine.order_by("-proposed__proposal_id").values("proposed__proposal_id")[:1]
    return mine.filter(proposed__proposal_id=Subquery(latest)).order_by("ordinal")


def current_operations(operations: Sequence[Operation]) -> list[Operation]:
    """Those of the job's latest proposal that has any; earlier ones are settled history."""
    latest = max((o.proposed.proposal_id for o in operations), default=0)
    return sorted((o for o in operations if o.proposed.proposal_id == latest), key=lambda o: o.ordinal)


def _withdraw_stopped(operations: Sequence[Operation], now: datetime) -> None:
    for operation in operations:
        if operation.state == S.PREPARED:
            move(operation, S.WITHDRAWN, now, next_step="", next_step_at=None)


def _evidence(job: Job, derived: Derived, *, cancelled: bool) -> dict[str, Any]:
    """The fates, as they are written: what is read needs no lock, who changes one holds the job's."""
    evidence: dict[str, Any] = {
        "operations": [
            {"operation": label_of(job.pk, ordinal), "state": state, "receipt": receipt, "why": why}
            for ordinal, state, receipt, why in _FATES.all(job.pk)
        ]
    }
    if cancelled:
        evidence["cancel"] = (
            "the cancel came too late" if derived.state is JobState.CONFIRMED else "a cancel was asked for"
        )
    if derived.state is JobState.NEEDS_RECONCILIATION:
        evidence["cause"] = derived.event.removeprefix("outcome.")
    return evidence


_FATES = Values(lambda job: current(job).values_list("ordinal", "state", "receipt_id", "fate_note"))
_STANDINGS = Values(lambda job: current(job).order_by().values_list("state", "next_step").distinct())
