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
    """One field. `changed` is the part of the proposed value that differs, between `before` and `after`."""

    label: str
    current: str | None
    before: str
    changed: str
    after: str
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
    before, changed, after = _marked(current, proposed)
    named = (value["source"], value["source_version"])
    return Change(
        label=value["label"],
        current=current,
        before=before,
        changed=changed,
        after=after,
        source=value["source"],
        source_version=value["source_version"],
        read_at=next((s.read_at for s in sources if (s.name, s.version) == named), None),
        by_model=value["by_model"],
    )


def _marked(current: str | None, proposed: str) -> tuple[str, str, str]:
    """The proposed value cut into what stays, what differs, what stays; only whole words are told apart."""
    if current is None:
        return proposed, "", ""
    was, now = current.split(" "), proposed.split(" ")
    start = _same(was, now)
    end = _same(was[start:][::-1], now[start:][::-1])
    middle = now[start : len(now) - end]
    if not middle:
        return "", proposed, ""
    before, after = " ".join(now[:start]), " ".join(now[len(now) - end :] if end else [])
    return (f"{before} " if before else ""), " ".join(middle), (f" {after}" if after else "")


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
