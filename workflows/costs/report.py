"""Costs as lines of text: for files, for terminals."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from decimal import Decimal

from web.spreadsheets import harmless
from workflows import pricing
from workflows.costs.spent import Line, Spent
from workflows.kinds import Fate


def csv_lines(lines: Sequence[Line], by: Sequence[str]) -> Iterator[str]:
    """A line for each key and fate, exact, after a head. Cells that a spreadsheet would run as a formula are quoted."""
    yield _csv([*by, "fate", "cost", "currency", "calls_of_unknown_cost", "tokens_in", "tokens_out"])
    for line in lines:
        key = [harmless(str(part)) for part in line.key]
        for fate in Fate:
            spent: Spent = getattr(line, fate.value)
            if spent:
                cost = "" if spent.unpriced and not spent.cost else plain(spent.cost)
                yield _csv(
                    [*key, fate.value, cost, pricing.currency(), spent.unpriced, spent.tokens_in,
                     spent.tokens_out]
                )  # fmt: skip


def plain(cost: Decimal) -> str:
    """All of its decimals, at least two, and no exponent."""
    whole, _, decimals = f"{cost:f}".partition(".")
    return f"{whole}.{decimals.rstrip('0').ljust(2, '0')}"


def table(lines: Sequence[Line], by: Sequence[str]) -> Iterator[str]:
    """The same for people: a line for each key, and the sum."""
    total = Line(
        ("all", *[""] * (len(by) - 1)),
        kept=sum((line.kept for line in lines), Spent()),
        failed=sum((line.failed for line in lines), Spent()),
        refused=sum((line.refused for line in lines), Spent()),
    )
    rows = [(" ".join(map(str, line.key)).strip(), line) for line in (*lines, total)]
    width = max(len(by[0]), *(len(name) for name, _ in rows))
    yield f"{by[0]:<{width}}  {'kept':>14}  {'failed':>14}  {'refused':>14}  {'total':>14}  calls of unknown cost"
    for name, line in rows:
        spent = (line.kept, line.failed, line.refused, line.total)
        costs = "  ".join(f"{_told(s):>14}" for s in spent)
        yield f"{name:<{width}}  {costs}  {line.total.unpriced or '-'}"


def _told(spent: Spent) -> str:
    """An amount, "unknown" where there is nothing but calls that nobody knows the cost of, or a dash."""
    if spent.cost:
        return plain(spent.cost)
    return "unknown" if spent.unpriced else "-"


def _csv(cells: Sequence[object]) -> str:
    written = io.StringIO()
    csv.writer(written).writerow(cells)
    return written.getvalue()
