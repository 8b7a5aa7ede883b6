"""What a statement holds as tables for other programs, page after page, so that a million rows are never held at once.

Text that a spreadsheet would run is made harmless; amounts stay numbers. The lines, mapped as a table with commas, come
back as the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from access.tenancy import reading
from statements.models import RowError, Statement, StatementLine
from statements.queries import LineView
from web.spreadsheets import Cell, csv_lines

AT_ONCE = 5000
_LINES = (
    "Row", "Booked on", "Value date", "Amount", "Currency", "Id", "Reference", "Text", "Counterparty", "Counterparty account",
)  # fmt: skip
_ERRORS = ("Row", "Column", "Was read", "What to do")


def lines(statement: Statement) -> Iterator[str]:
    """Its lines, in their order in the file."""

    def after(key: int) -> list[tuple[int, Sequence[Cell]]]:
        found = StatementLine.objects.filter(statement=statement, row_number__gt=key).order_by("row_number")
        return [(line.row_number, _line(LineView(line))) for line in found[:AT_ONCE]]

    return csv_lines(_LINES, _paged(statement, after))


def errors(statement: Statement) -> Iterator[str]:
    """Everything that is wrong with its rows."""

    def after(key: int) -> list[tuple[int, Sequence[Cell]]]:
        found = RowError.objects.filter(statement=statement, pk__gt=key).order_by("pk")
        return [(e.pk, (e.row_number, e.column, e.was_read, e.problem)) for e in found[:AT_ONCE]]

    return csv_lines(_ERRORS, _paged(statement, after))


def _paged(
    statement: Statement, after: Callable[[int], list[tuple[int, Sequence[Cell]]]]
) -> Iterator[Sequence[Cell]]:
    key = 0
    while True:
        with reading(statement.tenant_id):
            page = after(key)
        if not page:
            return
        key = page[-1][0]
        yield from (row for _, row in page)


def _line(view: LineView) -> Sequence[Cell]:
    line = view.line
    return (
        line.row_number, line.booked_on, line.value_on, view.amount, line.currency, line.receivers_id, line.reference,
        line.text, line.counterparty, line.counterparty_account,
    )  # fmt: skip
