"""A set: a proposal of many operations. First what they have in common, field by field; then a page of them in full.

Everything is told from the frozen document. Nothing is left out: each page shows its operations with every value and
every byte, and one address shows them all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from approvals.changes import Change, Source, change_of
from approvals.slips import SlipOperation

SET_OF = 6
"""From so many operations on, they are told as a set."""

PAGE = 50
ALL = "all"
NAMED = 4
LONGEST_NAMED = 60


@dataclass(frozen=True, slots=True)
class Spread:
    """One field over the whole set: in how many operations it changes, from what, to what, and who chose the values."""

    label: str
    operations: int
    current: str
    proposed: str
    source: str
    by_model: int


@dataclass(frozen=True, slots=True)
class Line:
    """One changed field of one operation. `source` is empty where the whole set has the same one."""

    change: Change
    source: str


@dataclass(frozen=True, slots=True)
class Member:
    """One operation of the set as its page shows it."""

    frozen: SlipOperation
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Part:
    """The set, and the operations `first` to `last` of it."""

    total: int
    first: int
    last: int
    members: list[Member]
    spreads: list[Spread]
    receivers: list[str]
    independent: bool

    @property
    def whole(self) -> bool:
        """Whether these are all of them."""
        return self.last - self.first + 1 == self.total


@dataclass(frozen=True, slots=True)
class PageLink:
    """A page of the set and where it is."""

    words: str
    url: str
    current: bool


def part_of(operations: Sequence[SlipOperation], sources: Sequence[Source], start: str = "") -> Part | None:
    """The page of a set on which the operation `start` stands ("all": one page of all); None for a few operations."""
    if len(operations) < SET_OF:
        return None
    first, last = _bounds(len(operations), start)
    told = _sources(operations)
    return Part(
        total=len(operations),
        first=first,
        last=last,
        members=[_member(o, sources, told) for o in operations[first - 1 : last]],
        spreads=_spreads(operations, told),
        receivers=sorted({o.receiver for o in operations}),
        independent=all(o.independent for o in operations),
    )


def pages_of(part: Part, url_of: Callable[[str], str]) -> list[PageLink]:
    """Where the other operations of a set are; nothing where one page has them all anyway."""
    if part.total <= PAGE:
        return []
    pages = [
        PageLink(f"{first}–{last}", url_of(str(first)), not part.whole and part.first == first)
        for first in range(1, part.total + 1, PAGE)
        for last in [min(first + PAGE - 1, part.total)]
    ]
    return [*pages, PageLink("All on one page", url_of(ALL), part.whole)]


def phrase_of(values: Iterable[str]) -> str:
    """What the values of a field are, in one phrase: all where they are few, else how many and the most common."""
    found = Counter(values)
    if len(found) == 1:
        return _named(next(iter(found)))
    empty = found.pop("", 0)
    among = [f"empty in {empty:,}"] if empty else []
    common = found.most_common(NAMED)
    if len(found) <= NAMED:
        return ", ".join([*among, *(f"{_named(value)} in {times:,}" for value, times in common)])
    many = f"{len(found):,} different values"
    if common[0][1] > 1:
        many += ", most often " + ", ".join(f"{_named(value)} in {times:,}" for value, times in common[:2])
    return ", ".join([*among, many])


def _bounds(total: int, start: str) -> tuple[int, int]:
    if start == ALL or total <= PAGE:
        return 1, total
    wanted = int(start) if start.isascii() and start.isdigit() and len(start) < 7 else 1
    first = (min(max(wanted, 1), total) - 1) // PAGE * PAGE + 1
    return first, min(first + PAGE - 1, total)


def _sources(operations: Sequence[SlipOperation]) -> dict[str, set[tuple[str, str]]]:
    """By label: from where its values come in this set."""
    found: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for operation in operations:
        for change in operation.changes:
            found[change["label"]].add((change["source"], change["source_version"]))
    return found


def _member(
    operation: SlipOperation, sources: Sequence[Source], told: dict[str, set[tuple[str, str]]]
) -> Member:
    lines = []
    for value in operation.changes:
        change = change_of(value, sources)
        own = len(told[change.label]) > 1
        lines.append(Line(change, _source(change.source, change.source_version) if own else ""))
    return Member(operation, lines)


def _spreads(operations: Sequence[SlipOperation], told: dict[str, set[tuple[str, str]]]) -> list[Spread]:
    changes: dict[str, list[dict[str, Any]]] = {}
    for operation in operations:
        for change in operation.changes:
            changes.setdefault(change["label"], []).append(change)
    return [
        Spread(
            label=label,
            operations=len(found),
            current=phrase_of(c["current"] or "" for c in found),
            proposed=phrase_of(c["proposed"] for c in found),
            source=_source(*next(iter(told[label]))) if len(told[label]) == 1 else "several sources",
            by_model=sum(c["by_model"] for c in found),
        )
        for label, found in changes.items()
    ]


def _named(value: str) -> str:
    if not value:
        return "empty"
    if len(value) <= LONGEST_NAMED:
        return value
    return f"{value[:LONGEST_NAMED]}… ({len(value):,} characters, in full below)"


def _source(name: str, version: str) -> str:
    return f"{name}, version {version}" if name and version else name or "no source named"
