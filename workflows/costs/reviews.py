"""A job that is refused after its results were counted: what they cost moves to another fate, and may move back."""

from __future__ import annotations

from workflows import hooks
from workflows.hooks import Happened
from workflows.models import SpendingReview
from workflows.states import JobState

REFUSED = frozenset({JobState.FAILED.value, JobState.CANCELLED.value})


def connect() -> None:
    """Hear of every change of state. Called once, when the app is ready."""
    for state in JobState:
        hooks.on_state(state, review_spending)


def review_spending(happened: Happened) -> None:
    """Have a job counted anew that has become, or has ceased to be, one whose results were refused."""
    if (happened.from_state in REFUSED) != (happened.to_state in REFUSED):
        SpendingReview.objects.create(tenant_id=happened.job.tenant_id, job_id=happened.job.pk)
