"""What a row of a statement becomes: a line, or what is wrong with it. Plain values; no rows of the database."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from hashlib import blake2b
from typing import NamedTuple

LONGEST_TEXT = 1000
"""Characters of one text of a line; a cell that is longer is a problem of its row."""
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class Line(NamedTuple):
    """One movement as the receiver booked it. `amount` is in the smallest unit of `currency`, without a sign."""

    booked_on: date
    value_on: date | None
    amount: int
    currency: str
    direction: str
    receivers_id: str
    reference: str
    text: str
    counterparty: str
    counterparty_account: str

    def fingerprint(self) -> bytes:
        """What makes it the same line wherever it comes again.

        A receiver's own id names it, whatever text is added later; without one every word counts.
        """
        parts = [self.booked_on.isoformat(), str(self.amount), self.currency, self.direction]
        if self.receivers_id:
            parts.append(self.receivers_id)
        else:
            valued = self.value_on.isoformat() if self.value_on else ""
            parts += [valued, self.reference, self.text, self.counterparty, self.counterparty_account]
        return blake2b("\x1f".join(parts).encode(), digest_size=16).digest()


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a row is no line. `was_read` is what stands there, as far as it can be shown."""

    column: str
    was_read: str
    sentence: str


class Unreadable(Exception):
    """A cell that cannot be read; the sentence says what to do."""


def printable(text: str, longest: int = 200) -> str:
    """Text that a row can hold and a page can show: controls as pictures, and short."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return _CONTROLS.sub(lambda found: chr(0x2400 + ord(found[0])) if found[0] != "\x7f" else "␡", cut)
