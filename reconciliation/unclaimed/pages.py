"""What the page of a case about unclaimed lines shows of them: the largest first, what they come to, what was set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Q

from reconciliation.unclaimed.choosing import Chosen, as_seen, lines_of
from statements.matching.asides import Amounts, amounts_of, in_words
from statements.matching.models import SetAside, Tally
from statements.models import Statement, StatementLine
from statements.queries import LineView

AT_ONCE = 50


@dataclass(frozen=True, slots=True)
class AsideView:
    """A line that was set aside, with its amount."""

    aside: SetAside
    view: LineView


@dataclass(frozen=True, slots=True)
class LinesPage:
    """The lines of one statement that nobody claims, as far as they are chosen, and those that were set aside.

    `after` is the cursor of smaller ones, "" at the end.
    """

    statement: Statement
    chosen: Chosen
    left: int
    matched: int
    aside: int
    amounts: Sequence[Amounts]
    rows: Sequence[LineView]
    after: str
    currencies: Sequence[str]
    asides: Sequence[AsideView]

    @property
    def count(self) -> int:
        """How many the filter leaves."""
        return sum(a.lines for a in self.amounts)

    @property
    def seen(self) -> str:
        return as_seen(self.amounts)

    @property
    def words(self) -> str:
        return in_words(self.amounts)


def lines_page(statement_id: int, chosen: Chosen, *, after: str = "", show_aside: bool = False) -> LinesPage:
    """A page of the lines. At most eight queries, two of them over all unclaimed lines of the statement."""
    statement = Statement.objects.select_related("receiver").get(pk=statement_id)
    tally = Tally.objects.get(statement=statement)
    lines = lines_of(statement, chosen)
    amounts = amounts_of(lines)
    rows = lines if (place := _place(after)) is None else lines.filter(
        Q(amount__lt=place[0]) | Q(amount=place[0], pk__gt=place[1])
    )  # fmt: skip
    found = list(rows.order_by("-amount", "pk")[: AT_ONCE + 1])
    return LinesPage(
        statement=statement,
        chosen=chosen,
        left=statement.lines - tally.lines - tally.aside,
        matched=tally.lines,
        aside=tally.aside,
        amounts=amounts,
        rows=[LineView(line) for line in found[:AT_ONCE]],
        after=_cursor(found[AT_ONCE - 1]) if len(found) > AT_ONCE else "",
        currencies=sorted({a.currency for a in amounts} | ({chosen.currency} if chosen.currency else set())),
        asides=_asides(statement) if show_aside else (),
    )


def _asides(statement: Statement) -> list[AsideView]:
    rows = SetAside.objects.filter(statement=statement, taken_back_at__isnull=True)
    rows = rows.select_related("line", "made_by", "second").order_by("-pk")
    return [AsideView(a, LineView(a.line)) for a in rows[:AT_ONCE]]


def _cursor(line: StatementLine) -> str:
    return f"{line.amount}-{line.pk}"


def _place(cursor: str) -> tuple[int, int] | None:
    amount, _, pk = cursor.partition("-")
    if not all(t.isascii() and t.isdigit() and len(t) < 19 for t in (amount, pk)):
        return None
    return int(amount), int(pk)
