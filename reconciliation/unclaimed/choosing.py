"""Which unclaimed lines somebody means: those that a filter leaves, or some of them that were ticked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import reduce
from operator import or_
from typing import Any, Self

from django.db.models import Q, QuerySet

from statements.matching.asides import Amounts, unclaimed
from statements.models import Direction, Statement, StatementLine

_LONGEST = 200
_TEXTS = ("reference", "text", "counterparty", "receivers_id")


@dataclass(frozen=True, slots=True)
class Chosen:
    """What was chosen; an empty string narrows nothing. `text`: anywhere in a line's texts, in any case."""

    way: str = ""
    currency: str = ""
    text: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """From an address, a form or a request."""
        values = {
            f.name: str(given.get(f.name) or "").replace("\x00", "")[:_LONGEST].strip() for f in fields(cls)
        }
        return cls(**values)

    def asked(self) -> dict[str, str]:
        """Only what narrows something."""
        return {name: value for name, value in asdict(self).items() if value}

    @property
    def words(self) -> str:
        """In people's words, or "every unclaimed line"."""
        told = [{"in": "came in", "out": "went out"}.get(self.way, ""), self.currency]
        told += [f"“{self.text}” in its texts"] if self.text else []
        return ", ".join(t for t in told if t) or "every unclaimed line"


def lines_of(statement: Statement, chosen: Chosen, ticked: Sequence[int] = ()) -> QuerySet[StatementLine]:
    """Unclaimed lines of a statement: the ticked ones, or without any of these those that the filter leaves."""
    lines = unclaimed(statement.pk)
    if ticked:
        return lines.filter(pk__in=ticked)
    if chosen.way in Direction.values:
        lines = lines.filter(direction=chosen.way)
    if chosen.currency:
        lines = lines.filter(currency=chosen.currency)
    if chosen.text:
        lines = lines.filter(reduce(or_, (Q(**{f"{name}__icontains": chosen.text}) for name in _TEXTS)))
    return lines


def as_seen(amounts: Sequence[Amounts]) -> str:
    """How many lines and what they come to, as a form carries what was on the screen: "12 out EUR 4000; 1 in EUR 5"."""
    return "; ".join(f"{a.lines} {a.direction} {a.currency} {a.amount}" for a in amounts)
