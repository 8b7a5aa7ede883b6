"""How a job's state reads to people: the words and mark by cause, and the overlays of a hold, a retry and a stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, OuterRef

from access.tenancy import TenantQuerySet
from dispatch.models import Operation
from dispatch.states import OperationState
from web.vocabulary import sign_of
from workflows.models import Expectation, ExpectationKind, Job, WorkItem
from workflows.states import ENDED, STUCK_ITEM_STATES, ItemState, JobState


@dataclass(frozen=True, slots=True)
class Sign:
    """What the `state` tag is given: the code, and where they differ from it words and a mark."""

    code: str
    words: str = ""
    mark: str = ""

    @property
    def shown(self) -> str:
        return sign_of(self.code, self.words, self.mark).words


def with_standing(jobs: TenantQuerySet[Job]) -> TenantQuerySet[Job]:
    """Jobs with the flags that `sign_of_job` reads."""
    items = WorkItem.objects.filter(job=OuterRef("pk"))
    operations = Operation.objects.filter(job=OuterRef("pk"))
    waits = Expectation.objects.filter(job=OuterRef("pk"), settled_at__isnull=True)
    annotated: Any = jobs.annotate(
        is_stuck=Exists(
            items.filter(state__in=[s.number for s in STUCK_ITEM_STATES], stage__closed_at__isnull=True)
        ),
        is_backing_off=Exists(
            items.filter(state=ItemState.BACKING_OFF.number).exclude(stage__kind="machine")
        ),
        is_waiting=Exists(waits),
        is_asking=Exists(waits.filter(kind=ExpectationKind.ANSWER)),
        has_left=Exists(operations.filter(first_may_have_been_sent_at__isnull=False)),
        is_unknown=Exists(operations.filter(state__in=[OperationState.UNKNOWN, OperationState.SUBMITTED])),
        is_conflicted=Exists(operations.filter(state=OperationState.CONFLICTED)),
        is_applied=Exists(operations.filter(state=OperationState.CONFIRMED)),
    )
    return annotated  # type: ignore[no-any-return]


def sign_of_job(job: Job) -> Sign:
    """The state of a job that came from `with_standing`, in the words that people see."""
    if job.state in ENDED:
        return Sign(job.state)
    if job.held_at is not None:
        return Sign(job.state, f"{_words(job)}, held", "held")
    if job.cancel_requested_at is not None:
        return Sign(job.state, f"{_words(job)}, stopping", "held")
    if job.state in (JobState.RECEIVED, JobState.VALIDATED):
        if job.is_stuck:  # type: ignore[attr-defined]
            return Sign(job.state, f"{_words(job)}, stopped", "exhausted")
        if job.is_backing_off:  # type: ignore[attr-defined]
            return Sign(job.state, f"{_words(job)}, retry waiting", "retry")
        if job.is_asking:  # type: ignore[attr-defined]
            return Sign(job.state, f"{_words(job)}, question open", "awaiting")
        if job.is_waiting:  # type: ignore[attr-defined]
            return Sign(job.state, f"{_words(job)}, waiting")
    return Sign(job.state, _words(job))


def cause_words(job: Job) -> str:
    """Why a job needs reconciliation: only what nobody knows is an unknown outcome."""
    if job.is_unknown:  # type: ignore[attr-defined]
        return "Outcome unknown"
    if job.is_conflicted:  # type: ignore[attr-defined]
        return "Answer differs"
    if job.is_applied:  # type: ignore[attr-defined]
        return "Partly applied"
    return "Outcome unknown"


def _words(job: Job) -> str:
    if job.state == JobState.SUBMITTED and not job.has_left:  # type: ignore[attr-defined]
        return "Sending"
    if job.state == JobState.NEEDS_RECONCILIATION:
        return cause_words(job)
    return sign_of(job.state).words
