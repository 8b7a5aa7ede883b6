"""Who is told outside how a job ended, or that it cannot end by itself. After the journal's row, in its transaction."""

from __future__ import annotations

from outbox import events
from outbox.writing import Notice, write
from workflows import hooks
from workflows.hooks import Happened
from workflows.states import JobState

TOLD: dict[JobState, tuple[str, str, str]] = {
    JobState.CONFIRMED: (
        "job.confirmed", "is confirmed", "every change of a job is known to have been made"),
    JobState.FAILED: ("job.failed", "failed", "a job failed"),
    JobState.CANCELLED: ("job.cancelled", "is cancelled", "a job was cancelled"),
    JobState.NEEDS_RECONCILIATION: (
        "job.needs_reconciliation", "needs reconciliation", "nobody knows yet what became of a change, or only a part of it was made"),
}  # fmt: skip
"""The event, what a job that enters the state does, and when an endpoint is told."""
_ASKED_FOR = "job.cancelled"
"""Other ways to that state are told by the rooms that bring them about."""


def connect() -> None:
    """Make the events known, and listen to the states."""
    for state, (event, _, meaning) in TOLD.items():
        events.declare(event, meaning)
        hooks.on_state(state, entered)


def entered(happened: Happened) -> None:
    """Endpoints are told of each of these states; whoever started the job, of its end by somebody else's hand."""
    job = happened.job
    event, what, _ = TOLD[JobState(happened.to_state)]
    ended = happened.to_state in (JobState.CONFIRMED, JobState.FAILED) or happened.event == _ASKED_FOR
    by_themselves = happened.actor.person_id == job.submitted_by_id
    notice = Notice(
        event=event,
        key=f"{event}/{job.pk}/{happened.sequence}",
        title=f"{job.label} {what}",
        page="job",
        page_args=(job.pk,),
        subject={"job": job.pk},
    )
    write(notice, people=[job.submitted_by_id] if ended and not by_themselves else (), now=happened.at)
