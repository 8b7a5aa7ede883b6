"""The state machine: the one table from which the checks in Python, the trigger in the database, the diagram and the
test matrix come. Imports nothing of ours.

A job's state changes only by inserting a journal row that names one of these transitions; the database's trigger
looks at the same table (`workflows/journal_sql.py` renders it).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a job stands. One meaning each."""

    RECEIVED = "RECEIVED"  # accepted and saved; a worker validates it next
    VALIDATED = "VALIDATED"  # its steps run, or a case says why they do not
    PROPOSED = "PROPOSED"  # a proposal is frozen; a worker decides which policy holds
    AWAITING_APPROVAL = "AWAITING_APPROVAL"  # a manager decides
    READY_TO_COMMIT = "READY_TO_COMMIT"  # approved; a worker repeats the checks and sends
    SUBMITTED = "SUBMITTED"  # something may have left, or is about to
    CONFIRMED = "CONFIRMED"  # ended: every operation is known to have been applied
    FAILED = "FAILED"  # ended: nothing more will be tried; what was applied is said per operation
    CANCELLED = "CANCELLED"  # ended: a person stopped it; what was applied is said per operation
    NEEDS_RECONCILIATION = (
        "NEEDS_RECONCILIATION"  # nobody knows, or only part of it happened: an operator's case
    )


class ItemState(StrEnum):
    """Where a work item stands. Stored by the short number beside it, since the table is hot."""

    READY = "READY"
    BACKING_OFF = "BACKING_OFF"
    RUNNING = "RUNNING"
    WAITING = "WAITING"
    SUCCEEDED = "SUCCEEDED"
    EXHAUSTED = "EXHAUSTED"
    REFUSED = "REFUSED"
    SKIPPED = "SKIPPED"
    CANCELLED = "CANCELLED"
    COMPENSATED = "COMPENSATED"

    @property
    def number(self) -> int:
        """What the hot table stores for it: its place here, so that none may be moved."""
        return list(ItemState).index(self)


OPEN_ITEM_STATES = (ItemState.READY, ItemState.BACKING_OFF, ItemState.RUNNING, ItemState.WAITING)
STUCK_ITEM_STATES = (ItemState.EXHAUSTED, ItemState.REFUSED)

NOT_YET = ""
"""The state of a job row before its first journal row, inside the transaction that submits it."""

ENDED = (JobState.CONFIRMED, JobState.FAILED, JobState.CANCELLED)
BEFORE_SENDING = (
    JobState.RECEIVED,
    JobState.VALIDATED,
    JobState.PROPOSED,
    JobState.AWAITING_APPROVAL,
    JobState.READY_TO_COMMIT,
)


@dataclass(frozen=True, slots=True)
class Transition:
    """One allowed change of state, who may make it, and what evidence its journal row carries."""

    source: str
    target: JobState
    actors: tuple[str, ...]
    evidence: str


def _rows() -> tuple[Transition, ...]:
    s = JobState
    t = Transition
    reopened = "the new evidence; a second person"
    restored = "the backup, what may have been sent since"
    return (
        t(
            NOT_YET,
            s.RECEIVED,
            ("submitter", "operator"),
            "submission key, input digest, revision, configuration digest",
        ),
        t(s.RECEIVED, s.VALIDATED, ("worker",), "validation report"),
        t(s.RECEIVED, s.FAILED, ("worker", "operator"), "what was invalid, per field"),
        t(s.VALIDATED, s.PROPOSED, ("worker",), "proposal and digest, the checkpoints it was made from"),
        t(s.VALIDATED, s.FAILED, ("worker", "operator"), "the permanent error, or the case that was closed"),
        t(s.PROPOSED, s.AWAITING_APPROVAL, ("worker",), "policy revision, quorum, expiry"),
        t(s.PROPOSED, s.READY_TO_COMMIT, ("worker",), "the policy revision that waives approval"),
        t(s.PROPOSED, s.VALIDATED, ("worker",), "proposal void, why"),
        t(
            s.AWAITING_APPROVAL,
            s.READY_TO_COMMIT,
            ("manager",),
            "the decisions that make the quorum, the digest they saw",
        ),
        t(
            s.AWAITING_APPROVAL,
            s.VALIDATED,
            ("manager", "worker", "operator", "submitter"),
            "the voided proposal, why",
        ),
        t(s.AWAITING_APPROVAL, s.CANCELLED, ("manager", "admin", "submitter"), "reason"),
        t(
            s.READY_TO_COMMIT,
            s.SUBMITTED,
            ("worker",),
            "the checks repeated at dispatch, operation key, payload digest",
        ),
        t(s.READY_TO_COMMIT, s.AWAITING_APPROVAL, ("worker", "manager"), "which decision no longer holds"),
        t(
            s.READY_TO_COMMIT,
            s.VALIDATED,
            ("worker",),
            "which fact changed, or expired; the proposal is void",
        ),
        t(s.READY_TO_COMMIT, s.FAILED, ("operator",), "the case that was closed"),
        t(
            s.SUBMITTED,
            s.READY_TO_COMMIT,
            ("worker",),
            "every submission definitely not applied; why it waits",
        ),
        t(
            s.SUBMITTED,
            s.CONFIRMED,
            ("worker", "receiver", "operator"),
            "a receipt or observation for every operation",
        ),
        t(
            s.SUBMITTED,
            s.NEEDS_RECONCILIATION,
            ("worker", "receiver", "operator"),
            "what is ambiguous or mixed, and why no safe automatic step is left",
        ),
        t(
            s.NEEDS_RECONCILIATION,
            s.CONFIRMED,
            ("operator", "worker", "receiver"),
            "receipt, observation or accepted variance for every operation",
        ),
        t(
            s.NEEDS_RECONCILIATION,
            s.SUBMITTED,
            ("operator",),
            "the decision to resubmit the same key; checks repeated",
        ),
        t(
            s.SUBMITTED,
            s.FAILED,
            ("worker", "receiver", "operator"),
            "every operation settled; the fate of each",
        ),
        t(
            s.NEEDS_RECONCILIATION,
            s.FAILED,
            ("worker", "receiver", "operator"),
            "every operation settled; the fate of each",
        ),
        t(
            s.SUBMITTED,
            s.CANCELLED,
            ("admin", "worker", "operator"),
            "an admin's request; the fate of each operation",
        ),
        t(
            s.NEEDS_RECONCILIATION,
            s.CANCELLED,
            ("admin", "worker", "operator"),
            "an admin's request; the fate of each operation",
        ),
        t(s.RECEIVED, s.CANCELLED, ("admin", "submitter"), "reason"),
        t(s.VALIDATED, s.CANCELLED, ("admin", "submitter"), "reason"),
        t(s.PROPOSED, s.CANCELLED, ("admin", "submitter"), "reason"),
        t(s.READY_TO_COMMIT, s.CANCELLED, ("admin",), "reason"),
        t(s.FAILED, s.VALIDATED, ("operator",), "redrive: nothing was applied; every checkpoint kept"),
        t(s.CONFIRMED, s.NEEDS_RECONCILIATION, ("operator",), reopened),
        t(s.FAILED, s.NEEDS_RECONCILIATION, ("operator",), reopened),
        t(s.CANCELLED, s.NEEDS_RECONCILIATION, ("operator",), reopened),
        t(s.PROPOSED, s.NEEDS_RECONCILIATION, ("worker",), restored),
        t(s.AWAITING_APPROVAL, s.NEEDS_RECONCILIATION, ("worker",), restored),
        t(s.READY_TO_COMMIT, s.NEEDS_RECONCILIATION, ("worker",), restored),
    )


TRANSITIONS: tuple[Transition, ...] = _rows()
ACTOR_KINDS = ("worker", "receiver", "submitter", "manager", "operator", "admin", "auditor")

ALLOWED: frozenset[tuple[str, str, str]] = frozenset(
    (str(t.source), str(t.target), actor) for t in TRANSITIONS for actor in t.actors
)
"""Every (from, to, actor kind) that exists; all others are refused, by Python and by the database."""


class TransitionNotAllowed(Exception):
    """(from, to, actor kind) is not in the table."""


def check(source: str, target: str, actor_kind: str) -> None:
    """Raise TransitionNotAllowed unless the table has it."""
    if (str(source), str(target), actor_kind) not in ALLOWED:
        raise TransitionNotAllowed(
            f"A {actor_kind} may not move a job from {source or 'nothing'} to {target}."
        )


def targets(source: str) -> tuple[JobState, ...]:
    """Where a job in `source` can go, in the table's order."""
    return tuple(dict.fromkeys(t.target for t in TRANSITIONS if t.source == source))
