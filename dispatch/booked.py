"""What a line of a receiver's statement does to an operation: it confirms, agrees with, contradicts or differs from it.

Every function wants the job and the operation locked, keeps what the line says as an observation, and derives the job.
That no line was found is nothing that is said here: it proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from access.roles import Actor
from dispatch import proofs, reversals, settling
from dispatch.lookups import plan_again
from dispatch.models import Observation, Operation
from dispatch.moving import observe
from dispatch.states import IN_DOUBT_OR_FLIGHT, OperationState
from workflows.models import Job
from workflows.states import ENDED

KIND = "statement line"
S = OperationState


class Effect(StrEnum):
    """What came of it for the operation."""

    APPLIED = "applied"  # it was in doubt or on its way, and is confirmed by the line
    CORROBORATED = "corroborated"  # it was confirmed before, and the line agrees
    CONTRADICTED = "contradicted"  # it was settled otherwise: a case asks, and nothing moved
    CONFLICTED = "conflicted"  # the line is not what was approved, and it is no longer confirmed
    PART = "a part"  # it waits for the lines that are left of it
    NOTED = "noted"  # kept as evidence beside a difference that is asked about already


@dataclass(frozen=True, slots=True)
class Line:
    """What is kept of a line with an operation: a sentence, the evidence as JSON, and the receiver's own id of it."""

    summary: str
    detail: str
    receipt_id: str


def booked_as_approved(*, job: Job, operation: Operation, line: Line, actor: Actor, now: datetime) -> Effect:
    """The line is what was approved. Raises `settling.StillSending` while a submission is open: ask again later."""
    if operation.state == S.CONFIRMED:
        return Effect.CORROBORATED
    if operation.state == S.CONFLICTED:
        _observe(job, operation, line, actor, now, finding="applied")
        return Effect.NOTED
    if operation.state in (S.UNKNOWN, S.SUBMITTED):
        settling.settle_confirmed(
            job=job, operation=operation, kind=KIND, summary=line.summary, detail=line.detail,
            receipt_id=line.receipt_id or operation.receipt_id, actor=actor, now=now,
        )  # fmt: skip
        return Effect.APPLIED if operation.state == S.CONFIRMED else Effect.CONTRADICTED
    _observe(job, operation, line, actor, now, finding="applied", proves=True)
    proofs.contradict(job, operation, "applied", actor)
    return Effect.CONTRADICTED


def booked_in_part(*, job: Job, operation: Operation, line: Line, actor: Actor, now: datetime) -> Effect:
    """The line is a part of what was approved, and the rest is not there yet: it is kept, and proves nothing by itself.

    Nothing of an unknown one is sent by itself from then on (`in_part`). Raises `settling.StillSending` likewise.
    """
    settling.refuse_while_sending(operation)
    _observe(job, operation, line, actor, now, finding="part")
    if operation.state == S.UNKNOWN:
        plan_again(job, operation, actor, now)
    return Effect.PART


def booked_differently(*, job: Job, operation: Operation, line: Line, actor: Actor, now: datetime) -> Effect:
    """The line names the operation and is not what was approved. Raises `settling.StillSending` likewise."""
    settling.refuse_while_sending(operation)
    was = operation.state
    _observe(job, operation, line, actor, now, finding="differs")
    if was == S.CONFLICTED:
        return Effect.NOTED
    proofs.take_as_differing(
        job=job, operation=operation, receipt_id=operation.receipt_id, actor=actor, now=now
    )
    return Effect.CONFLICTED if operation.state == S.CONFLICTED else Effect.CONTRADICTED


def line_taken_away(*, job: Job, operation: Operation, summary: str, actor: Actor, now: datetime) -> bool:
    """The line that confirmed it is not its line after all; whether it is in doubt again, from then on without a send.

    An operation that something else proves stays confirmed. In a job that has ended, of what is compensated, and where
    another operation is at its record nothing moves: a case asks, and a person reopens it.
    """
    proven = Observation.objects.filter(operation=operation, finding="applied", proves=True).exclude(
        kind=KIND
    )
    observe(
        job=job, operation=operation, kind=KIND, finding="taken away", proves=False, summary=summary, actor=actor, now=now
    )  # fmt: skip
    if operation.state != S.CONFIRMED or proven.exists():
        return False
    if job.state in ENDED or _is_built_on(operation):
        proofs.contradict(job, operation, "taken away", actor)
        return False
    settling.reopen(job=job, operation=operation, summary=summary, actor=actor, now=now)
    return True


def _is_built_on(operation: Operation) -> bool:
    """Whether something follows from its being applied: it is compensated, or its record is another operation's by now."""
    on_its_record = Operation.objects.filter(
        receiver=operation.receiver_id,
        account=operation.account,
        record=operation.record,
        state__in=IN_DOUBT_OR_FLIGHT,
    ).exclude(pk=operation.pk)
    return reversals.taken_back(operation).at_most > 0 or on_its_record.exists()


def _observe(
    job: Job,
    operation: Operation,
    line: Line,
    actor: Actor,
    now: datetime,
    *,
    finding: str,
    proves: bool = False,
) -> None:
    observe(
        job=job, operation=operation, kind=KIND, finding=finding, proves=proves, summary=line.summary,
        detail=line.detail, receipt_id=line.receipt_id, actor=actor, now=now,
    )  # fmt: skip
