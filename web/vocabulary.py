"""The words and marks that people see for the code names of states. Imports nothing of ours.

A mark is a value of `data-s`: a circle is with the machine, a diamond is with a person, a square has ended.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sign:
    """How one state is shown: words, and the mark that stands before them."""

    words: str
    mark: str


SIGNS = {
    # jobs
    "RECEIVED": Sign("Received", "received"),
    "VALIDATED": Sign("Validated", "validated"),
    "PROPOSED": Sign("Proposed", "proposed"),
    "AWAITING_APPROVAL": Sign("Awaiting approval", "awaiting"),
    "READY_TO_COMMIT": Sign("Approved, not sent", "ready"),
    "SUBMITTED": Sign("Sent, no receipt yet", "submitted"),
    "CONFIRMED": Sign("Confirmed", "confirmed"),
    "FAILED": Sign("Failed", "failed"),
    "CANCELLED": Sign("Cancelled", "cancelled"),
    "NEEDS_RECONCILIATION": Sign("Outcome unknown", "unknown"),
    # operations, where they differ
    "PREPARED": Sign("Not sent yet", "ready"),
    "REFUSED": Sign("Refused", "failed"),
    "NOT_APPLIED": Sign("Not applied", "cancelled"),
    "UNKNOWN": Sign("Outcome unknown", "unknown"),
    "CONFLICTED": Sign("Answer differs", "mixed"),
    "WITHDRAWN": Sign("Withdrawn", "cancelled"),
    # work items, where they differ
    "READY": Sign("Ready", "pending"),
    "BACKING_OFF": Sign("Retry waiting", "retry"),
    "RUNNING": Sign("Running", "running"),
    "WAITING": Sign("Waiting", "pending"),
    "SUCCEEDED": Sign("Done", "done"),
    "EXHAUSTED": Sign("Retry exhausted", "exhausted"),
    "SKIPPED": Sign("Skipped", "cancelled"),
    "COMPENSATED": Sign("Undone", "done"),
    # overlays and results
    "HELD": Sign("Held", "held"),
    "STOPPING": Sign("Stopping", "held"),
    "PASSES": Sign("Passes", "done"),
    "FAILS": Sign("Fails", "no"),
    "FINDING": Sign("Finding", "found"),
    "NOT_ALLOWED": Sign("Not allowed", "locked"),
}

MARKS_OF_WORDS = {"Partly applied": "mixed", "Answer differs": "mixed"}
"""Causes of NEEDS_RECONCILIATION that are known: plum says that the outcome is unknown, and nothing else."""


def sign_of(code: str, words: str = "", mark: str = "") -> Sign:
    """The sign of a state. An unlisted code shows itself in words, so that a new state is never invisible."""
    known = SIGNS.get(code) or Sign(code.replace("_", " ").capitalize(), "pending")
    return Sign(words or known.words, mark or MARKS_OF_WORDS.get(words, known.mark))


def named(code: str) -> str:
    """A state within a sentence: “Cancelled”."""
    return f"\N{LEFT DOUBLE QUOTATION MARK}{sign_of(str(code)).words}\N{RIGHT DOUBLE QUOTATION MARK}"
