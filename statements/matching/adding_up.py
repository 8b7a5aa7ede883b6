"""Which amounts add up exactly: searches with an end, that say when they gave up; and what then goes where. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

STEPS = 50_000
MOST_FOUND = 3


@dataclass(frozen=True, slots=True)
class Sums:
    """Sets of places that add up. `whole`: whether every set was looked at, so that there are no others."""

    found: tuple[tuple[int, ...], ...]
    whole: bool


def sets_that_add_up(
    target: int, amounts: Sequence[int], *, largest: int, steps: int = STEPS, within: int = 0
) -> Sums:
    """Places of at least two and at most `largest` positive amounts whose sum is `target`, the smallest sets first.

    `within`: by how much the sum may miss it, either way; amounts that are no more than that count for nothing. Stops at
    the fourth set, or after `steps` of its search.
    """
    parts = ((a, i) for i, a in enumerate(amounts) if within < a < target + within)
    search = _Search(within, sorted(parts, reverse=True), steps)
    for size in range(2, largest + 1):
        search.sets_of(size, 0, target, ())
        if search.left <= 0 or len(search.found) > MOST_FOUND:
            break
    whole = search.left > 0 and len(search.found) <= MOST_FOUND
    return Sums(tuple(tuple(sorted(s)) for s in search.found[:MOST_FOUND]), whole)


@dataclass(frozen=True, slots=True)
class Both:
    """Sets of places of one side and of the other whose sums are equal. `whole` as of `Sums`."""

    found: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    whole: bool


def sets_on_both_sides(
    first: int, others: Sequence[int], amounts: Sequence[int], *, largest: int, steps: int = STEPS
) -> Both:
    """Places of at least one of `others` that come with `first` to what at least two of `amounts` come to, the fewest first.

    Sets that fall into two which add up by themselves are left out, since these are matches of their own. Stops at the
    fourth, or after `steps` sets.
    """
    by_sum: dict[int, list[tuple[int, ...]]] = {}
    left = steps
    for size in range(2, largest):
        for places in combinations(range(len(amounts)), size):
            left -= 1
            if left <= 0:
                return Both((), whole=False)
            by_sum.setdefault(sum(amounts[i] for i in places), []).append(places)
    found: list[tuple[tuple[int, ...], tuple[int, ...]]] = []
    for size in range(1, largest - 1):
        for mine in combinations(range(len(others)), size):
            left -= 1
            if left <= 0 or len(found) > MOST_FOUND:
                return Both(tuple(found[:MOST_FOUND]), whole=False)
            given = [first, *(others[i] for i in mine)]
            for theirs in by_sum.get(sum(given), ()):
                if len(mine) + 1 + len(theirs) <= largest and _is_one(given, [amounts[i] for i in theirs]):
                    found.append((mine, theirs))
    return Both(tuple(found[:MOST_FOUND]), whole=len(found) <= MOST_FOUND)


def _is_one(given: Sequence[int], wanted: Sequence[int]) -> bool:
    """Whether no part of the one is what a part of the other comes to."""
    parts = {sum(part) for size in range(1, len(given)) for part in combinations(given, size)}
    return not any(
        sum(part) in parts for size in range(1, len(wanted)) for part in combinations(wanted, size)
    )


def allocate(lines: Mapping[int, int], operations: Mapping[int, int]) -> list[tuple[int, int, int]]:
    """What of each line goes to each operation, in the order of their keys: (line, operation, amount).

    Where the sums differ the smallest come first, so that the largest has the difference. As few pieces as there are lines
    and operations, less one.
    """
    equal = sum(lines.values()) == sum(operations.values())
    mine, theirs = (
        sorted(((amount, key) for key, amount in side.items()), key=lambda e: (0 if equal else e[0], e[1]))
        for side in (lines, operations)
    )
    shares: list[tuple[int, int, int]] = []
    (line_left, line), (operation_left, operation) = mine.pop(0), theirs.pop(0)
    while True:
        piece = min(line_left, operation_left)
        shares.append((line, operation, piece))
        line_left, operation_left = line_left - piece, operation_left - piece
        if (not line_left and not mine) or (not operation_left and not theirs):
            return shares
        if not line_left:
            line_left, line = mine.pop(0)
        if not operation_left:
            operation_left, operation = theirs.pop(0)


class _Search:
    def __init__(self, within: int, amounts: list[tuple[int, int]], steps: int) -> None:
        self.within = within
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
            if amount * size < rest - self.within:
                return  # the largest that are left are too small together
            if size == 1:
                if abs(amount - rest) <= self.within:
                    self.found.append((*chosen, index))
            elif amount < rest + self.within:
                self.sets_of(size - 1, place + 1, rest - amount, (*chosen, index))
