"""Changed fields made ready to be read: what stays, what differs, and where a value came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Source:
    name: str
    version: str
    read_at: datetime | None


@dataclass(frozen=True, slots=True)
class Change:
    """One field. The proposed value differs from the current one between `start` and `end`."""

    label: str
    current: str | None
    proposed: str
    start: int
    end: int
    source: str
    source_version: str
    read_at: datetime | None
    by_model: bool


def source_of(value: dict[str, Any]) -> Source:
    """One source of the document."""
    return Source(value["name"], value["version"], _moment(value["read_at"]))


def change_of(value: dict[str, Any], sources: Sequence[Source]) -> Change:
    """One changed field of the document; its source's age where that is among the proposal's sources."""
    current, proposed = value["current"], value["proposed"]
    start, end = _differing(current, proposed)
    named = (value["source"], value["source_version"])
    return Change(
        label=value["label"],
        current=current,
        proposed=proposed,
        start=start,
        end=end,
        source=value["source"],
        source_version=value["source_version"],
        read_at=next((s.read_at for s in sources if (s.name, s.version) == named), None),
        by_model=value["by_model"],
    )


def _differing(current: str | None, proposed: str) -> tuple[int, int]:
    """From where to where the proposed value differs; only whole words are told apart."""
    if current is None:
        return 0, 0
    was, now = current.split(" "), proposed.split(" ")
    start = _same(was, now)
    end = _same(was[start:][::-1], now[start:][::-1])
    middle = now[start : len(now) - end]
    if not middle:
        return 0, len(proposed)
    before = len(" ".join(now[:start])) + (1 if start else 0)
    return before, before + len(" ".join(middle))


def _same(one: list[str], other: list[str]) -> int:
    """How many words both begin with."""
    pairs = zip(one, other, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None
