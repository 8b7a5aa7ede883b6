"""One currency for every cost of an installation: settled with the first cost, and never changed after it."""

from __future__ import annotations

from workflows.costs import sql
from workflows.engine.connections import Connection


class AnotherCurrency(Exception):
    """The setting names another currency than the costs that are recorded here."""


def settle(connection: Connection, currency: str) -> None:
    """Note the currency, or AnotherCurrency where there are costs in another one. Called before workers start."""
    connection.execute(sql.OPEN_BOOK)
    connection.execute(sql.SETTLE_CURRENCY, {"currency": currency})
    row = connection.execute("SELECT currency FROM workflows_costbook").fetchone()
    if row is not None and row[0] != currency:
        raise AnotherCurrency(
            f"The costs recorded here are in {row[0]}, and COUNTERFOIL_COST_CURRENCY says {currency}. Two currencies are"
            f" never added up: set it to {row[0]} again."
        )
