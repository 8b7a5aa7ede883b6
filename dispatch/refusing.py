"""The receiver says of an operation that it did not do it: by a callback, or when it is asked.

A no to what is in doubt refuses it, where it speaks of every send. A no to what was confirmed is a contradiction, and
stops what would have followed.
"""

from __future__ import annotations

from datetime import datetime

from access.roles import Actor
from dispatch import outcomes, proofs
from dispatch.callback_terms import Stage
from dispatch.models import Operation
from dispatch.states import OperationState
from workflows.models import Job
from workflows.states import ENDED

S = OperationState


def take_as_failed(*, job: Job, operation: Operation, why: str, actor: Actor, now: datetime) -> bool:
    """Settle a locked operation by it, no send being open; False where it settles nothing."""
    if operation.state == S.CONFIRMED:
        proofs.contradict(job, operation, Stage.FAILED.value, actor)
        if job.state not in ENDED:
            # What follows it must not go on before a person has looked.
            proofs.take_as_differing(
                job=job, operation=operation, receipt_id=operation.receipt_id, actor=actor, now=now
            )
        return True
    if operation.state not in (S.SUBMITTED, S.UNKNOWN) or not _speaks_of_every_send(operation):
        return False
    told = f"{operation.receiver.title} did not do it: {why}"
    proofs.take_as_refused(job=job, operation=operation, why=told, actor=actor, now=now)
    return True


def _speaks_of_every_send(operation: Operation) -> bool:
    """A definite answer to one send settles no other, unless the receiver takes all of them for one."""
    same_key = Operation.objects.filter(receiver=operation.receiver_id, operation_key=operation.operation_key)
    alone = not same_key.exclude(pk=operation.pk).exists()
    return alone and outcomes.is_one_effect(operation, outcomes.counting(operation))
