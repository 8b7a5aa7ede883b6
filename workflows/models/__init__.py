"""RECEIVED … PROPOSED: jobs, their journal, and the work that their steps are."""

from workflows.kinds import AttemptOutcome, Fate, StageKind
from workflows.models.files import JobFile, StoredFile
from workflows.models.jobs import HeldFor, Job, JobInput, JournalEntry
from workflows.models.limits import Limit, LimitTerms, SharedLimit
from workflows.models.revisions import KnownRevision
from workflows.models.spending import CostBook, JobSpending, Spending, SpendingReview
from workflows.models.waits import (
    EventEnd,
    EventSource,
    Expectation,
    ExpectationKind,
    ExternalEvent,
    Settled,
)
from workflows.models.work import (
    NOT_DONE_NUMBERS,
    STUCK_NUMBERS,
    Attempt,
    Checkpoint,
    ItemInput,
    Stage,
    WorkItem,
)
from workflows.models.workers import Lane, Worker

__all__ = [
    "NOT_DONE_NUMBERS",
    "STUCK_NUMBERS",
    "Attempt",
    "AttemptOutcome",
    "Checkpoint",
    "CostBook",
    "EventEnd",
    "EventSource",
    "Expectation",
    "ExpectationKind",
    "ExternalEvent",
    "Fate",
    "HeldFor",
    "ItemInput",
    "Job",
    "JobFile",
    "JobInput",
    "JobSpending",
    "JournalEntry",
    "KnownRevision",
    "Lane",
    "Limit",
    "LimitTerms",
    "Settled",
    "SharedLimit",
    "Spending",
    "SpendingReview",
    "Stage",
    "StageKind",
    "StoredFile",
    "WorkItem",
    "Worker",
]
