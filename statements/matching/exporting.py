"""What makes the difference between booked and settled, as CSV: a row for each line and operation, page after page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from django.db import connection

from access.tenancy import reading
from dispatch.minor import as_amount
from statements.matching.sides import MADE_OF, Scope, currencies
from web.spreadsheets import Cell, csv_lines

AT_ONCE = 5000
_COLUMNS = ("What", "Amount", "Currency", "Day", "Statement", "Row", "Reference", "Text", "Named by")


def differences(tenant_id: int, scope: Scope) -> Iterator[str]:
    """Every part of every currency, in that order; amounts add up to the residuals."""
    return csv_lines(_COLUMNS, _rows(tenant_id, scope))


def _rows(tenant_id: int, scope: Scope) -> Iterator[Sequence[Cell]]:
    with reading(tenant_id):
        codes = currencies(scope)
    for currency in codes:
        for what, sql in MADE_OF.items():
            after = 0
            while page := _page(tenant_id, sql, {**scope.values, "currency": currency, "after": after}):
                after = page[-1][0]
                yield from ((what, as_amount(row[1], currency), currency, *row[2:]) for row in page)


def _page(
    tenant_id: int, sql: str, values: dict[str, Any]
) -> list[tuple[int, int, str, str, str, str, str, str]]:
    with reading(tenant_id), connection.cursor() as cursor:
        cursor.execute(sql, {**values, "listed": AT_ONCE})
        return list(cursor.fetchall())
