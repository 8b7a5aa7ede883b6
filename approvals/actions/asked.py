"""What can be asked of a proposal and what comes of it: the verdict in hand, the refusals, the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from access.refusals import Conflict, NotPermitted, Unprocessable
from approvals.models import Verdict
from approvals.reasons import ReasonMissing, check_reason


class NoSuchVerdict(Unprocessable):
    """Not one of approve, reject, request changes; or without the digest that it is about."""


class StaleProposal(Conflict):
    """The digest on the person's screen is not the proposal's."""


class AlreadyDecided(Conflict):
    """The person has said something else to this proposal before."""


class ProposalClosed(Conflict):
    """Somebody else's decision, or time, was first; the message says who and when."""


class SameAgain(Conflict):
    """Another job's proposal asks for the same and stands, and whoever approves this did not say that they know of it."""


class Expired(Conflict):
    """The proposal's time is over. Exactly at its expiry counts as over."""


class PasswordNeeded(NotPermitted):
    """The policy asks whoever approves this to enter their password again, at most five minutes before."""


class HeldOrCancelRequested(Conflict):
    """The job is held, or somebody asked to cancel it."""


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What the decision did. `repeated`: the person had said the same before, and nothing was done now."""

    decision_id: int
    proposal_id: int
    job_id: int
    verdict: Verdict
    decided_at: datetime
    repeated: bool
    approvals: int
    quorum: int
    closing: str
    job_state: str
    sentence: str


@dataclass(frozen=True, slots=True)
class From:
    """Through which door, how the person is known there, and when."""

    authenticated_by: str
    session: str
    door: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    verdict: Verdict
    digest: str
    reason: str
    fields: tuple[str, ...]
    knows_of: int
    source: From


def parse(
    verdict: str, digest: str, reason: str, fields: Sequence[str], knows_of: int, source: From
) -> Asked:
    if verdict not in Verdict.values:
        raise NoSuchVerdict(f"Say one of: {', '.join(Verdict.values)}.")
    if not digest:
        raise NoSuchVerdict("A decision says which digest it is about. Open the proposal and decide there.")
    if verdict != Verdict.APPROVE and not reason.strip():
        raise ReasonMissing("Say why: whoever reads this later has only your reason.")
    check_reason(reason, fields)
    # Kept as lines: a name that held a line break would be read as two.
    names = tuple(name for name in (" ".join(field.split()) for field in fields) if name)
    return Asked(Verdict(verdict), digest, reason.strip(), names, knows_of, source)
