"""Tables that people open in a spreadsheet: what a text would do there as a formula it does not do, and numbers stay numbers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from itertools import chain

# Of full width, too: a spreadsheet that is set to Japanese runs them.
_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n", "'", *"＝＋－＠")
Cell = str | int | Decimal | date | None


def harmless(text: str) -> str:
    """Text that no spreadsheet runs: an apostrophe before what begins as a formula, or with an apostrophe itself."""
    return f"'{text}" if _begins_as_a_formula(text) else text


def as_it_was(text: str) -> str:
    """What `harmless` was given."""
    return text[1:] if text.startswith("'") and _begins_as_a_formula(text[1:]) else text


def _begins_as_a_formula(text: str) -> bool:
    # Some programs drop spaces in front, those that do not break too.
    return text.lstrip(" ").startswith(_BEGINS) or text.lstrip().startswith(_BEGINS)


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Cell]]) -> Iterator[str]:
    """A table line by line: commas, a point before decimals, days as YYYY-MM-DD."""
    for row in chain([header], rows):
        line = io.StringIO()
        csv.writer(line).writerow(
            [harmless(c) if isinstance(c, str) else "" if c is None else c for c in row]
        )
        yield line.getvalue()
