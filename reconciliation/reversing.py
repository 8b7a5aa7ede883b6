"""Whether what a job did can be taken back, and which of its operations a case means: the guard of "compensate"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dispatch import reversals
from dispatch.models import Operation
from dispatch.states import OperationState
from workflows import registry
from workflows.models import Job


@dataclass(frozen=True, slots=True)
class Compensable:
    """The operation that would be taken back, if any was applied, and why it cannot be, or nothing."""

    operation_id: int | None
    why_not: str


NOTHING = Compensable(None, "")


def compensable(job: Job, operations: Sequence[Operation], about: Operation | None) -> Compensable:
    """Of the one that a case is about, where that was applied, or the first of the job's that something is left of."""
    applied = [o for o in operations if o.state == OperationState.CONFIRMED]
    if about is not None and about.state == OperationState.CONFIRMED:
        applied = [about]
    if not applied:
        return Compensable(None, f"Nothing of {job.label} is known to have been applied.")
    said = [(o.pk, why_not(job, o)) for o in applied]
    return Compensable(*next(((pk, why) for pk, why in said if not why), said[0]))


def why_not(job: Job, operation: Operation) -> str:
    """Why an operation cannot be compensated (further), in a sentence, or nothing. Needs the tenant's scope."""
    if said := reversals.why_not(operation):
        return said
    if registry.compensating(job.workflow) is None:
        return f"No workflow here says that it compensates {job.workflow}. Whoever writes its workflows can add one."
    return ""
