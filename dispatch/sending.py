"""The machine "dispatch.send": one operation, one step a call. It looks at the rows first and may be called for nothing.

Intent, then call, then outcome: a submission is opened in one transaction, sent outside any, and closed in another.
Killed at any line, the next call finds an open submission of a claim that is gone: unmarked, nothing left; marked,
nobody knows. A sender that still lives is given until its time to send is over before its mark is taken for doubt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from django.db import DatabaseError, InterfaceError, connection

from access.outages import may_pass
from access.roles import Actor, ActorKind
from access.statements import Values
from access.tenancy import acting
from dispatch import locks, lookups, outcomes, proofs, quarantining
from dispatch.callbacks.taking import take_what_came_before
from dispatch.classification import Outcome, Reading
from dispatch.connectors.calling import read_through, send_through
from dispatch.connectors.registry import NoSuchConnector, connector
from dispatch.contracts import Contract
from dispatch.deriving import current
from dispatch.looking import UNSEEN
from dispatch.marker import barrier, boot_clock
from dispatch.models import Operation, Submission
from dispatch.moving import RecordBusy
from dispatch.opening import NotOpened, Opened, busy, open_locked, open_submission
from dispatch.rechecking import is_looked_at, look_again
from dispatch.secrets import SecretMissing
from dispatch.states import NextStep, OperationState
from dispatch.wire import Exchange
from workflows import clock
from workflows.machines import Claim, Done, Wait
from workflows.models import Job, Worker
from workflows.states import JobState

MACHINE = proofs.MACHINE
SAVE_AGAIN_FOR = 600.0
"""Seconds: an answer that is not saved is an unknown outcome, and there is nothing better to do without a database."""
S = OperationState
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Todo:
    step: NextStep
    at: datetime | None = None
    recheck: bool = False
    opened: Opened | NotOpened | None = None


def run(claim: Claim) -> Done | Wait:
    """Take the operation one step further; the engine's handler. Never sends without a fresh, committed mark."""
    now = clock.now()
    actor = Actor(ActorKind.WORKER, claim.worker_name)
    try:
        todo = _take_up(claim, actor, now)
        if todo.step in (NextStep.SEND, NextStep.RESUBMIT):
            opened = todo.opened or _open_after_recheck(claim, todo, now)
            return Wait(opened.again_at) if isinstance(opened, NotOpened) else _send(opened, actor)
    except RecordBusy:
        return Wait(busy(now).again_at)
    except (SecretMissing, NoSuchConnector) as missing:
        _block(claim, str(missing), actor, now)
        return Wait()
    if todo.step is NextStep.LOOK_UP:
        lookups.look(tenant_id=claim.tenant_id, operation_id=int(claim.key), actor=actor, now=now)
        with acting(claim.tenant_id):
            return _what_next(int(claim.key))
    return Wait(todo.at)


def _open_after_recheck(claim: Claim, todo: _Todo, now: datetime) -> Opened | NotOpened:
    looked = look_again(claim) if todo.recheck else UNSEEN
    return open_submission(claim=claim, operation_id=int(claim.key), looked=looked, now=now)


def _send(opened: Opened, actor: Actor) -> Done | Wait:
    seen = send_through(connector(opened.contract.connector), opened.sending, barrier(opened.sender))
    return record_outcome(opened, seen, actor)


def record_outcome(opened: Opened, seen: Exchange, actor: Actor) -> Done | Wait:
    """Close the submission by what was seen, and say what comes next. A database that is away, or a job that
    somebody else holds for long, is asked again for a while; a repeat is harmless."""
    now = clock.now()
    reading = read_through(connector(opened.contract.connector), seen, opened.sending, now)
    return _saved(lambda: _record(opened, seen, reading, actor, now))


def _record(opened: Opened, seen: Exchange, reading: Reading, actor: Actor, now: datetime) -> Done | Wait:
    with acting(opened.sender.tenant_id):
        job, operation, submission = locks.lock_sent(
            opened.job_id, opened.operation_id, opened.sender.submission_id
        )
        if submission.closed_at is None:
            outcomes.close_submission(
                job=job, operation=operation, submission=submission, reading=reading, seen=seen, actor=actor, now=now
            )  # fmt: skip
            if operation.state == S.SUBMITTED or opened.contract.callbacks is not None:
                take_what_came_before(job, operation, now)
            if operation.state == S.CONFIRMED:
                return Done()
        elif submission.outcome != reading.outcome.value:
            proofs.keep_late_answer(
                job=job, operation=operation, submission=submission, reading=reading, actor=actor, now=now
            )
        return _what_next(operation.pk)


def _saved(write: Callable[[], T]) -> T:
    # The COMMIT may have gone through although its answer was lost; `write` looks before it writes.
    until = time.monotonic() + SAVE_AGAIN_FOR
    while True:
        try:
            return write()
        except (DatabaseError, InterfaceError) as away:
            if time.monotonic() > until or not may_pass(away):
                raise
            connection.close()
            time.sleep(0.5)


def _take_up(claim: Claim, actor: Actor, now: datetime) -> _Todo:
    """Close what a dead claim left open, and find the one step that is due. Locks job → proposal → operation →
    submission.

    A send that no workflow looks at first is opened at once, under the same locks. Raises what `open_locked` raises.
    """
    began = boot_clock()
    with acting(claim.tenant_id):
        at = locks.lock_all(claim.job_id, int(claim.key))
        job, operation, submission = at.job, at.operation, at.submission
        if submission is not None and quarantining.knows_nothing_of(submission):
            quarantining.quarantine(job=job, proposal=at.proposal, operation=operation, actor=actor, now=now)
            return _due(job, operation, now)
        if submission is not None:
            wait = _take_over(claim, job, operation, submission, actor, now)
            return _Todo(NextStep.NONE, wait) if wait is not None else _due(job, operation, now)
        todo = _due(job, operation, now)
        if todo.step not in (NextStep.SEND, NextStep.RESUBMIT) or (todo.recheck and is_looked_at(job)):
            return todo
        opened = open_locked(claim=claim, at=at, looked=UNSEEN, began=began, now=now)
        return replace(todo, opened=opened)


def _take_over(
    claim: Claim, job: Job, operation: Operation, submission: Submission, actor: Actor, now: datetime
) -> datetime | None:
    """Close an open submission whose claim is gone; until when to wait where its sender may still be sending."""
    if submission.may_have_been_sent_at is None:
        reading = Reading(Outcome.NOT_SENT, f"{submission.worker_name} stopped before the first byte")
    else:
        until = submission.send_deadline_at + Contract.of(operation.contract.terms).timeouts.longest
        if _lives(submission.worker_id) and locks.database_clock() < until:
            return until
        reading = Reading(Outcome.UNKNOWN, f"{submission.worker_name} stopped after bytes may have left")
    outcomes.close_submission(
        job=job, operation=operation, submission=submission, reading=reading, seen=None, actor=actor, now=now
    )
    operation.refresh_from_db()
    return None


def _lives(worker_id: int) -> bool:
    return Worker.objects.filter(
        pk=worker_id, ended_at__isnull=True, lease_until__gt=locks.database_clock()
    ).exists()


def _due(job: Job, operation: Operation, now: datetime) -> _Todo:
    step = NextStep(operation.next_step)
    if job.state not in (JobState.READY_TO_COMMIT, JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
        return _Todo(NextStep.NONE)
    if operation.state == S.SUBMITTED and step is NextStep.NONE and operation.next_step_at is not None:
        return _overdue(job, operation, now)
    if step in (NextStep.NONE, NextStep.BLOCKED):
        return _Todo(NextStep.NONE)
    if operation.next_step_at is not None and operation.next_step_at > now:
        return _Todo(NextStep.NONE, operation.next_step_at)
    if step is NextStep.RESUBMIT and job.cancel_requested_at is not None and operation.state == S.UNKNOWN:
        lookups.plan_again(job, operation, Actor(ActorKind.WORKER, "worker"), now)
        return _Todo(NextStep.NONE, operation.next_step_at)
    if step is NextStep.SEND and not _is_its_turn(job, operation):
        return _Todo(NextStep.NONE)
    # The first send of an unknown operation may itself have changed what the workflow would look at.
    return _Todo(step, recheck=operation.state != S.UNKNOWN)


def _overdue(job: Job, operation: Operation, now: datetime) -> _Todo:
    """Accepted, and no confirmation in the time that the contract gives: from here on it is unknown."""
    if operation.next_step_at is not None and operation.next_step_at > now:
        return _Todo(NextStep.NONE, operation.next_step_at)
    lookups.plan_again(job, operation, Actor(ActorKind.WORKER, "worker"), now)
    return _Todo(NextStep.NONE)


def _is_its_turn(job: Job, operation: Operation) -> bool:
    if operation.proposed.independent or operation.ordinal == 1:
        return True
    return not _BEFORE.exist(job.pk, operation.ordinal)


def _block(claim: Claim, why: str, actor: Actor, now: datetime) -> None:
    with acting(claim.tenant_id):
        job, operation = locks.lock_job_and_operation(int(claim.key))
        if operation.state in (S.PREPARED, S.UNKNOWN, S.NOT_APPLIED):
            outcomes.block(job=job, operation=operation, why=why, actor=actor, now=now)


def _what_next(operation_id: int) -> Done | Wait:
    """When to be called again: read after everything was written, so that nothing has to be remembered."""
    ((state, step, at),) = _STANDING.all(operation_id)
    if state in (S.REFUSED, S.WITHDRAWN, S.CONFIRMED):
        return Done()
    if step in ("", NextStep.BLOCKED) and at is None:
        return Wait()
    return Wait(at or clock.now())


_BEFORE = Values(
    lambda job, ordinal: (
        current(job).filter(ordinal__lt=ordinal).exclude(state=S.CONFIRMED).values_list("pk")[:1]
    )
)
_STANDING = Values(
    lambda operation: Operation.objects.filter(pk=operation).values_list("state", "next_step", "next_step_at")
)
