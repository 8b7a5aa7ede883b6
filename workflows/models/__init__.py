"""RECEIVED … PROPOSED: jobs, their journal, and the work that their steps are."""

from workflows.kinds import AttemptOutcome, StageKind
from workflows.models.jobs import Job, JournalEntry
from workflows.models.limits import Limit, LimitTerms, SharedLimit
from workflows.models.revisions import KnownRevision
from workflows.models.waits import (
    EventEnd,
    EventSource,
    Expectation,
    ExpectationKind,
    ExternalEvent,
    Settled,
)
from workflows.models.work import (
    OPEN_NUMBERS,
    STUCK_NUMBERS,
    Attempt,
    Checkpoint,
    ItemInput,
    Stage,
    WorkItem,
)
from workflows.models.workers import Lane, Worker

__all__ = [
    "OPEN_NUMBERS",
    "STUCK_NUMBERS",
    "Attempt",
    "AttemptOutcome",
    "Checkpoint",
    "EventEnd",
    "EventSource",
    "Expectation",
    "ExpectationKind",
    "ExternalEvent",
    "ItemInput",
    "Job",
    "JournalEntry",
    "KnownRevision",
    "Lane",
    "Limit",
    "LimitTerms",
    "Settled",
    "SharedLimit",
    "Stage",
    "StageKind",
    "WorkItem",
    "Worker",
]
