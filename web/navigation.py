"""What the bar of every page consists of."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Room:
    """One entry of the navigation. `count` is how many wait there for a person; None where nothing can wait."""

    label: str
    url: str
    key: str
    count: int | str | None = None
    current: bool = False
