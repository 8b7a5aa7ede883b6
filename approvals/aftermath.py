"""What became of proposals, told by the rooms above: what left for this one, and how the last one like it ended.

Those rooms register one function each. Without them nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from approvals.models import Proposal
    from approvals.slips import SlipOperation


@dataclass(frozen=True, slots=True)
class Sent:
    """One send of one operation, and how what left compares with what was signed."""

    ordinal: int
    label: str
    number: int
    again: bool
    at: datetime
    under_way: bool
    outcome: str
    digest: str
    equal: bool
    differs: bool
    sentence: str


@dataclass(frozen=True, slots=True)
class Earlier:
    """How the last approved operation on one record ended, where it did not end well."""

    record: str
    job_id: int
    job_label: str
    proposal_id: int
    proposal_label: str
    ended: str
    why: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Twin:
    """A proposal of another job that asks for the same, and that stands: `word` says how far it is."""

    proposal_id: int
    proposal_label: str
    job_id: int
    job_label: str
    record: str
    word: str
    at: datetime


@dataclass(frozen=True, slots=True)
class SentSummary:
    """All sends of a slip in a sentence, and those that are not simply equal."""

    mark: str
    strong: str
    text: str
    others: list[Sent]
    equal: list[Sent]


def summary_of(sent: Sequence[Sent], operations: int) -> SentSummary | None:
    """What to say of what left for a slip; None where nothing did."""
    if not sent:
        return None
    equal, others = [s for s in sent if s.equal], [s for s in sent if not s.equal]
    reached = len({s.ordinal for s in sent})
    sends = f"{len(sent):,} send{'' if len(sent) == 1 else 's'}"
    of = f"of {reached:,} of {operations:,} operations" if operations > 1 else "of its operation"
    looked = f"{sends} {of}, as written to the connection, against the document that was signed."
    differing = [s for s in others if s.differs]
    if differing:
        text = f"{looked} {len(differing):,} of them {'differs' if len(differing) == 1 else 'differ'}."
        return SentSummary("no", "Sent bytes differ from the approved bytes.", text, others, equal)
    if others:
        text = f"{looked} Differences: none. Of {len(others):,} not everything is recorded."
        return SentSummary("held", "No sent byte differs from the approved bytes.", text, others, equal)
    return SentSummary(
        "done", "Sent bytes equal the approved bytes.", f"{looked} Differences: none.", [], equal
    )


TellsSent = Callable[[int, "Sequence[SlipOperation]"], list[Sent]]
TellsEarlier = Callable[["Proposal"], list[Earlier]]
TellsTwins = Callable[["Proposal"], list[Twin]]
_sent: list[TellsSent] = []
_twins: list[TellsTwins] = []
_earlier: list[TellsEarlier] = []


def tells_what_was_sent(tells: TellsSent) -> None:
    """Have a room above say what left for a proposal: `tells(proposal_id, operations)`, in the tenant's scope."""
    _sent[:] = [tells]


def tells_earlier_ends(tells: TellsEarlier) -> None:
    """Have a room above say which records of a proposal were last approved in vain, in at most two queries."""
    _earlier[:] = [tells]


def tells_twins(tells: TellsTwins) -> None:
    """Have a room above say which proposals of other jobs ask for the same as this one and stand, in one query."""
    _twins[:] = [tells]


def twins_of(proposal: Proposal) -> list[Twin]:
    """What asks for the same as the proposal, newest first: a key protects one operation, not what it is about."""
    return _twins[0](proposal) if _twins else []


def what_was_sent(proposal_id: int, operations: Sequence[SlipOperation]) -> list[Sent]:
    """Every send of a proposal's operations, in order."""
    return _sent[0](proposal_id, operations) if _sent else []


def earlier_ends(proposal: Proposal) -> list[Earlier]:
    """For each record of the proposal whose last approved operation failed or is in doubt: that, latest first."""
    return _earlier[0](proposal) if _earlier else []
