"""Whether the outcome of an operation can be asked about again: the guard of "reopen", from the rows as they are."""

from __future__ import annotations

from approvals.models import Proposal
from dispatch import reversals
from dispatch.models import Operation
from dispatch.states import IN_DOUBT_OR_FLIGHT, OperationState
from reconciliation import words
from workflows.compensation import plan
from workflows.compensation.plan import Standing
from workflows.models import Job
from workflows.states import ENDED, JobState

S = OperationState
FROM = (S.CONFIRMED, S.REFUSED, S.NOT_APPLIED)
"""What was settled, of something that had been sent."""


def why_not(job: Job, operation: Operation | None) -> str:
    """Why an operation cannot become unknown again, in a sentence, or nothing."""
    if operation is None:
        return "There is no operation whose outcome could be asked about again."
    if operation.state not in FROM:
        return f"Only what was settled can be reopened: {operation.label} is {words.FATES[operation.state]}."
    if operation.first_may_have_been_sent_at is None:
        return f"No byte of {operation.label} ever left."
    if Proposal.objects.filter(job=job, pk__gt=operation.proposed.proposal_id).exists():
        return f"A later proposal of {job.label} has taken its place."
    if job.state not in (*ENDED, JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
        return f"{job.label} has moved on."
    return _in_the_way(job, operation)


def _in_the_way(job: Job, operation: Operation) -> str:
    if operation.state == S.CONFIRMED and reversals.taken_back(operation).at_most:
        jobs = ", ".join(r.job.label for r in reversals.reversals_of([operation])[operation.pk])
        return f"{operation.label} is compensated, by {jobs}: what was recorded of it stays."
    if plan.standing_of(job) in (Standing.UNDER_WAY, Standing.BLOCKED, Standing.STOPPED):
        return f"What the steps of {job.label} made is being undone: that has to end first."
    other = (
        Operation.objects.filter(
            receiver=operation.receiver_id,
            account=operation.account,
            record=operation.record,
            state__in=IN_DOUBT_OR_FLIGHT,
        )
        .exclude(pk=operation.pk)
        .first()
    )
    if other is not None:
        return (
            f"{other.label} on the same record is {words.FATES[other.state]}: that has to be settled first."
        )
    return ""
