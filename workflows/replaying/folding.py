"""Folding a job's journal and attempts back into its state, at any point: what must be so, by what was written down.

A row of an item says more than was written about it: whether it is ready, runs or backs off, and whether its time was
up. So an item folds to the states that it may be in. An attempt that was accepted, a person's decision and the end of
a stage or of the job leave one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from workflows.kinds import AttemptOutcome
from workflows.replaying.rows import RENAMING, Item, Line, Rows
from workflows.states import ENDED, OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState

States = frozenset[ItemState]
OPEN: States = frozenset(OPEN_ITEM_STATES)
STUCK: States = frozenset(STUCK_ITEM_STATES)
_UNCOUNTED = {AttemptOutcome.RELEASED, AttemptOutcome.WAITING, AttemptOutcome.STALE}
_GIVES_ATTEMPTS = {"attempts.granted", "item.corrected"}
_CAME = {"event.received", "question.answered"}
_HOLDS = {"job.held", "revision.missing", "deadline.passed"}
_PINS = {"job.received", "job.migrated"}


@dataclass(frozen=True, slots=True)
class FoldedItem:
    """What an item's attempts, and the journal's lines about it, leave possible.

    `cut`: how often it was ended while it was open. If it ran then, that attempt was begun and came to nothing.
    """

    id: int
    stage: str
    key: str
    states: States
    attempts: int
    cut: int
    checkpoints: int


@dataclass(slots=True)
class Folded:
    """A job after some line of its journal."""

    sequence: int = 0
    at: datetime | None = None
    state: str = ""
    head: bytes = b""
    revision: str = ""
    configuration: str = ""
    input_digest: str = ""
    reruns: int = 0
    held_by: str = ""
    cancel_requested_by: str = ""
    ended_at: datetime | None = None
    stage_digests: dict[str, str] = field(default_factory=dict)
    items: tuple[FoldedItem, ...] = ()


def fold(rows: Rows, upto: int | None = None) -> Folded:
    """The job after line `upto`, or after the last one. Attempts count from their end on."""
    lines = [line for line in rows.lines if upto is None or line.sequence <= upto]
    folded = Folded()
    for line in lines:
        _apply(folded, line)
    until = folded.at if upto is not None and len(lines) < len(rows.lines) else None
    opened = {stage.name: stage.opened_at for stage in rows.stages}
    folded.items = tuple(
        _item(item, lines, until) for item in rows.items if until is None or opened[item.stage] <= until
    )
    return folded


def _apply(folded: Folded, line: Line) -> None:
    evidence = line.evidence
    folded.sequence, folded.at, folded.head = line.sequence, line.at, line.hash
    if line.to_state:
        folded.state = line.to_state
        folded.ended_at = line.at if line.to_state in ENDED else None
    if line.event in RENAMING:
        _rename(folded, evidence)
        folded.reruns += line.event == "steps.run_again"
    if line.event in _PINS:
        folded.revision = evidence.get("revision", folded.revision)
        folded.configuration = evidence.get("configuration", folded.configuration)
        folded.input_digest = evidence.get("input", folded.input_digest)
    elif line.event in _HOLDS:
        folded.held_by = line.actor
    elif line.event in {"job.released", "revision.returned"}:
        folded.held_by = ""
    elif line.event == "cancel.requested":
        folded.cancel_requested_by = line.actor
    elif line.event == "stage.closed":
        folded.stage_digests[evidence["stage"]] = evidence["checkpoints"]


def _rename(folded: Folded, evidence: Mapping[str, Any]) -> None:
    """Stages get other names, and those that a migration kept another digest where it converted them."""
    names = {was: name for kind in ("aside", "stages") for name, was in evidence.get(kind, {}).items()}
    renamed = {names.get(name, name): digest for name, digest in folded.stage_digests.items()}
    digests = evidence.get("checkpoints", {})
    folded.stage_digests = {name: digests.get(name, digest) for name, digest in renamed.items()}
    if evidence.get("freed"):
        folded.held_by = ""


def _item(item: Item, lines: Iterable[Line], until: datetime | None) -> FoldedItem:
    """In the order of the database's clock: an attempt begins after what let it, and ends before what it led to."""
    about = list(_lines_about(item, lines))
    tried = [t for t in item.tried if until is None or t.ended_at <= until]
    granted = sum(_granted(line) for line in about)
    limit = item.attempts_limit - granted
    states, used, cut, kept = OPEN, 0, 0, 0
    steps = [*((line.at, 1, line, None) for line in about), *((t.started_at, 0, None, t) for t in tried)]
    for _, _, line, attempt in sorted(steps, key=lambda step: step[:2]):
        if line is not None:
            limit += _granted(line)
            kept += line.event in _CAME or _converts(line, item, states)
            ends_it = line.event == "stage.closed" or line.to_state in ENDED or _sets_aside(line, item)
            cut += ends_it and bool(states & OPEN)
            states = _after_line(states, line, item)
        if attempt is not None:
            used += attempt.outcome not in _UNCOUNTED
            kept += attempt.outcome == AttemptOutcome.SUCCEEDED
            states = _after_attempt(states, attempt.outcome, attempt.number >= limit)
    return FoldedItem(item.id, item.stage, item.key, states, used, cut, kept)


def _lines_about(item: Item, lines: Iterable[Line]) -> Iterator[Line]:
    """Up to the one that sets it aside: what is told of its stage's name from then on is about another."""
    for line in lines:
        if _is_about(item, line):
            yield line
            if _sets_aside(line, item):
                return


def _is_about(item: Item, line: Line) -> bool:
    evidence = line.evidence
    if "item" in evidence:
        return bool(evidence["item"] == item.id)
    if line.sequence < item.since:
        return False
    if line.event in {"stage.closed", "step.compensated"}:
        return not item.stages.isdisjoint({evidence.get("stage"), evidence.get("step")})
    return line.event in {"job.redriven", "compensation.due", *RENAMING} or line.to_state in ENDED


def _converts(line: Line, item: Item, states: States) -> bool:
    """Whether the line tells of another version of the item's result."""
    if line.event != "job.migrated" or states != {ItemState.SUCCEEDED}:
        return False
    return not item.stages.isdisjoint(line.evidence.get("converted", []))


def _sets_aside(line: Line, item: Item) -> bool:
    return line.event in RENAMING and not item.stages.isdisjoint(line.evidence.get("aside", {}))


def _granted(line: Line) -> int:
    return int(line.evidence["attempts"]) if line.event in _GIVES_ATTEMPTS else 0


def _after_line(states: States, line: Line, item: Item) -> States:
    if line.event in _GIVES_ATTEMPTS:
        return OPEN
    if line.event == "item.skipped":
        return frozenset({ItemState.SKIPPED})
    if line.event == "retry.exhausted":
        return frozenset({ItemState.EXHAUSTED})
    if line.event == "item.refused":
        return frozenset({ItemState.REFUSED})
    if line.event in _CAME:
        return frozenset({ItemState.SUCCEEDED})
    if line.event == "stage.closed":
        return _closing(states, ItemState.SKIPPED)
    if _sets_aside(line, item):
        return frozenset({ItemState.CANCELLED}) if states & (OPEN | STUCK) else states
    if line.event == "job.redriven":
        return _redriven(states, not item.stages.isdisjoint(line.evidence.get("stages", [])))
    if line.event in {"compensation.due", "step.compensated"} and ItemState.SUCCEEDED in states:
        return frozenset({ItemState.SUCCEEDED, ItemState.COMPENSATED})
    if line.to_state in ENDED:
        # A stage that had closed may keep what stopped in it.
        ended = _closing(states, ItemState.CANCELLED)
        return ended | {ItemState.CANCELLED} if states & STUCK else ended
    return states


def _redriven(states: States, its_stage_was_open: bool) -> States:
    """What was open at the end was cancelled and is open again; what was not there yet was not cancelled either."""
    if its_stage_was_open:
        return OPEN if ItemState.CANCELLED in states else states
    return (states - {ItemState.CANCELLED}) or OPEN


def _closing(states: States, end: ItemState) -> States:
    """What is still open comes to an end."""
    return (states - OPEN) | {end} if states & OPEN else states


def _after_attempt(states: States, outcome: str, was_last: bool) -> States:
    if outcome == AttemptOutcome.STALE:
        return states
    if outcome == AttemptOutcome.SUCCEEDED:
        return frozenset({ItemState.SUCCEEDED})
    if outcome == AttemptOutcome.PERMANENT:
        return frozenset({ItemState.REFUSED})
    if outcome in (AttemptOutcome.RELEASED, AttemptOutcome.WAITING):
        return OPEN
    if outcome == AttemptOutcome.RETRYABLE and was_last:
        return frozenset({ItemState.EXHAUSTED})
    # Its time may have been up, or it had stopped too many workers; a suspect may have got its attempt back.
    return OPEN | {ItemState.EXHAUSTED}
