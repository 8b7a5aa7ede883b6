"""Which of several amounts add up to one exactly: a search with an end, that says when it gave up. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STEPS = 50_000
MOST_FOUND = 3


@dataclass(frozen=True, slots=True)
class Sums:
    """Sets of places that add up. `whole`: whether every set was looked at, so that there are no others."""

    found: tuple[tuple[int, ...], ...]
    whole: bool


def sets_that_add_up(target: int, amounts: Sequence[int], *, largest: int, steps: int = STEPS) -> Sums:
    """Places of at least two and at most `largest` positive amounts whose sum is `target`, the smallest sets first.

    Stops at the fourth set, or after `steps` of its search.
    """
    search = _Search(
        target, sorted(((a, i) for i, a in enumerate(amounts) if 0 < a < target), reverse=True), steps
    )
    for size in range(2, largest + 1):
        search.sets_of(size, 0, target, ())
        if search.left <= 0 or len(search.found) > MOST_FOUND:
            break
    whole = search.left > 0 and len(search.found) <= MOST_FOUND
    return Sums(tuple(tuple(sorted(s)) for s in search.found[:MOST_FOUND]), whole)


class _Search:
    def __init__(self, target: int, amounts: list[tuple[int, int]], steps: int) -> None:
        self.amounts = amounts
        self.left = steps
        self.found: list[tuple[int, ...]] = []

    def sets_of(self, size: int, start: int, rest: int, chosen: tuple[int, ...]) -> None:
        """Add every set of `size` more from `start` on whose sum is `rest`."""
        for place in range(start, len(self.amounts) - size + 1):
            self.left -= 1
            if self.left <= 0 or len(self.found) > MOST_FOUND:
                return
            amount, index = self.amounts[place]
            if amount * size < rest:
                return  # the largest that are left are too small together
            if size == 1:
                if amount == rest:
                    self.found.append((*chosen, index))
            elif amount < rest:
                self.sets_of(size - 1, place + 1, rest - amount, (*chosen, index))
