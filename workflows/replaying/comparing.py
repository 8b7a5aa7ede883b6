"""A fold against what is stored: where they differ, in words. The rooms above compare their own rows by a hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from workflows import journal, needs
from workflows.models import Job
from workflows.replaying.folding import Folded, FoldedItem
from workflows.replaying.rows import Item, Line, Rows
from workflows.states import ItemState


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is stored otherwise than it was told. Never values: states, counts, digests, names."""

    what: str
    folded: str
    stored: str

    def __str__(self) -> str:
        return f"{self.what}: {self.folded} by what was written down, {self.stored} as it is stored"


Comparison = Callable[[Job, Sequence[Line]], Iterable[Difference]]
_rooms: list[tuple[str, Comparison]] = []


def compares(what: str, comparison: Comparison) -> None:
    """Add what a room above compares of a job, in the tenant's scope: `what` names its rows."""
    _rooms.append((what, comparison))


def rooms() -> list[str]:
    """What is compared beside the job, its stages and items."""
    return [what for what, _ in _rooms]


def compare(rows: Rows, folded: Folded) -> list[Difference]:
    """Every difference between a fold of the whole journal and the rows. Within the snapshot that read them."""
    found = [*_chain(rows), *_job(rows.job, folded), *_stages(rows, folded), *_items(rows, folded)]
    for _, comparison in _rooms:
        found += comparison(rows.job, rows.lines)
    return found


def _differ(what: str, folded: object, stored: object) -> Iterator[Difference]:
    if folded != stored:
        yield Difference(what, str(folded) or "nothing", str(stored) or "nothing")


def _chain(rows: Rows) -> Iterator[Difference]:
    before = b""
    for number, entry in enumerate(rows.entries, 1):
        yield from _differ(f"line {number}, its place", number, entry.sequence)
        if bytes(entry.previous) != before or journal.entry_hash(entry) != bytes(entry.hash):
            yield Difference(
                f"line {entry.sequence}", "its hash", "another content, or another line before it"
            )
        before = bytes(entry.hash)


def _job(job: Job, folded: Folded) -> Iterator[Difference]:
    yield from _differ("state", folded.state, job.state)
    yield from _differ("version", folded.sequence, job.version)
    yield from _differ("head", folded.head.hex(), bytes(job.head).hex())
    yield from _differ("revision", folded.revision, job.revision)
    yield from _differ("configuration", folded.configuration, job.configuration_digest)
    yield from _differ("input", folded.input_digest, job.input_digest)
    yield from _differ("steps run again", folded.reruns, job.reruns)
    yield from _differ("ended", folded.ended_at, job.ended_at)
    yield from _differ("cancel requested by", folded.cancel_requested_by, job.cancel_requested_by)
    # A hold ends with its job, in words only: nobody lifts it any more.
    if not folded.ended_at:
        yield from _differ("held by", folded.held_by, job.held_by if job.held_at else "")


def _stages(rows: Rows, folded: Folded) -> Iterator[Difference]:
    by_name = {stage.name: stage for stage in rows.stages}
    for name, digest in folded.stage_digests.items():
        stage = by_name.get(name)
        if stage is None:
            yield Difference(f"stage {name}", "closed", "not there")
        elif stage.closed_at is not None:
            yield from _differ(f"stage {name}, digest over its checkpoints", digest, stage.digest)
            yield from _differ(
                f"stage {name}, digest over its checkpoints", digest, needs.checkpoints_digest(stage)
            )


def _items(rows: Rows, folded: Folded) -> Iterator[Difference]:
    stored = {item.id: item for item in rows.items}
    for told in folded.items:
        yield from _item(told, stored[told.id])


def _item(told: FoldedItem, item: Item) -> Iterator[Difference]:
    name = f"{item.stage}, item {item.key}"
    state = list(ItemState)[item.state]
    if state not in told.states:
        possible = " or ".join(sorted(s.value for s in told.states))
        yield Difference(f"{name}, state", possible, state.value)
    used = item.attempts - (state is ItemState.RUNNING)
    if not told.attempts <= used <= told.attempts + told.cut:
        yield from _differ(f"{name}, attempts used", told.attempts, used)
    yield from _differ(f"{name}, saved results", told.checkpoints, len(item.kept))
    for kept in item.kept:
        if not kept.holds:
            yield Difference(f"{name}, result {kept.version}", f"digest {kept.digest[:12]}", "another text")
