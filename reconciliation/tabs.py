"""The tabs of the queue: kinds of doubt, as people sort them, and the mark that stands before each kind's words."""

from __future__ import annotations

from dataclasses import dataclass

from reconciliation.models import CaseKind as K


@dataclass(frozen=True, slots=True)
class Tab:
    """Some kinds of case. `always`: it is shown although nothing is in it."""

    name: str
    label: str
    mark: str
    kinds: tuple[K, ...]
    always: bool = False


EXPECTED = "expected"
"""Not a tab of cases: what was accepted and is not due yet. Nothing is wrong with it, so no count of cases holds it."""

TABS: tuple[Tab, ...] = (
    Tab("unknown", "Outcome unknown", "unknown", (K.UNKNOWN_OUTCOME,), always=True),
    Tab("overdue", "Overdue", "unknown", (K.CONFIRMATION_OVERDUE,), always=True),
    Tab(
        "conflicted",
        "Conflicted",
        "mixed",
        (K.CONFLICTED, K.PARTIAL, K.KEY_MISMATCH, K.SENT_DIFFERS),
        always=True,
    ),
    Tab("duplicate", "Possible duplicate", "unknown", (K.POSSIBLE_DUPLICATE, K.CONTRADICTED), always=True),
    Tab("unclaimed", "Unclaimed statement lines", "found", (K.UNCLAIMED,), always=True),
    Tab("exhausted", "Retry exhausted", "exhausted", (K.RETRY_EXHAUSTED, K.PERMANENT_ERROR)),
    Tab(
        "held",
        "Held",
        "held",
        (K.REVISION_MISSING, K.DEADLINE_PASSED, K.BUDGET_PASSED, K.RESTORED, K.SEND_BLOCKED),
    ),
    Tab(
        "again",
        "Waiting for a new proposal",
        "awaiting",
        (K.PROPOSAL_EXPIRED, K.CHANGES_REQUESTED, K.FACT_CHANGED, K.NO_APPROVER),
    ),
    Tab("effects", "Cancelled with effects", "mixed", (K.CANCELLED_WITH_EFFECT,)),
    Tab("undone", "Not undone", "exhausted", (K.NOT_UNDONE,)),
    Tab("untold", "Not delivered", "exhausted", (K.UNDELIVERABLE,)),
)


def tab_named(name: str) -> Tab | None:
    """The tab of an address, or None for all."""
    return next((t for t in TABS if t.name == name), None)


def mark_of(kind: str) -> str:
    """The mark that stands before a kind's words. Plum only where an outcome is unknown."""
    return next((t.mark for t in TABS if kind in t.kinds), "unknown")
