"""Errands: long work that belongs to no job, which a room above has waiting. An engine finds it and does it in turns.

A turn is short, since the advancer that does it has other things to do; it opens its own transactions, must find out by
itself what is left, and may be killed at any line or called for nothing, by several processes at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Errand:
    """One kind of it. `find`: SQL for the engine's role, giving (tenant, id) of what has something left to do now.

    `turn` is called with tenant, id and the worker's name; it says whether there is more to do at once.
    """

    name: str
    find: str
    turn: Callable[[int, int, str], bool]


_errands: list[Errand] = []


def register(errand: Errand) -> None:
    """Add a kind of errand."""
    _errands.append(errand)


def registered() -> list[Errand]:
    """Every kind, in the order in which they were added."""
    return _errands
