"""What a job's journal tells of its proposals, against the proposals: their digests, which is open, and whether approved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from approvals.models import Proposal
from workflows.models import Job
from workflows.replaying.comparing import Difference
from workflows.replaying.rows import Line
from workflows.states import JobState

CLOSES = {
    "proposal.rejected",
    "changes.requested",
    "proposal.expired",
    "proposal.voided",
    "proposal.withdrawn",
    "proposal.cancelled",
    "operation.submitted",
}


@dataclass(slots=True)
class _Told:
    number: int
    digest: str
    is_open: bool = True
    approved: bool = False


def compare(job: Job, lines: Sequence[Line]) -> Iterator[Difference]:
    """Every proposal, in the order in which they were frozen."""
    told = _fold(lines)
    stored = {p.pk: p for p in Proposal.objects.filter(job=job).defer("document")}
    for pk in sorted({*told, *stored}):
        if pk not in stored or pk not in told:
            there = "stored" if pk in stored else "told of"
            yield Difference(f"proposal {pk}", "one", f"only {there}")
            continue
        name, one, row = f"proposal {told[pk].number}", told[pk], stored[pk]
        if one.digest != row.digest:
            yield Difference(f"{name}, digest", one.digest[:16], row.digest[:16])
        if one.is_open != (row.closed_at is None):
            yield Difference(name, _open(one.is_open), _open(row.closed_at is None))
        if one.is_open and one.approved != (row.approved_at is not None):
            yield Difference(name, _approved(one.approved), _approved(row.approved_at is not None))


def _fold(lines: Sequence[Line]) -> dict[int, _Told]:
    told: dict[int, _Told] = {}
    for line in lines:
        if line.event == "proposal.frozen":
            _close_all(told)
            told[line.evidence["proposal"]] = _Told(line.evidence["number"], line.evidence["digest"])
        elif line.event in CLOSES:
            _close_all(told)
        elif line.event in {"proposal.approved", "approval.waived"}:
            told[line.evidence["proposal"]].approved = True
        elif (
            line.event in {"approval.voided", "approval.withdrawn"}
            and line.to_state == JobState.AWAITING_APPROVAL
        ):
            told[line.evidence["proposal"]].approved = False
    return told


def _close_all(told: dict[int, _Told]) -> None:
    for one in told.values():
        one.is_open = False


def _open(is_open: bool) -> str:
    return "open" if is_open else "closed"


def _approved(approved: bool) -> str:
    return "approved" if approved else "not approved"
