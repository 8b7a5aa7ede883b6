"""The only place that locks rows of this room: a statement, alone, before any other row or after none.

Its lines, errors and repeated rows are written by whoever holds it, and by nobody else.
"""

from __future__ import annotations

from access.refusals import NotFound
from statements.models import Statement


class NoSuchStatement(NotFound):
    """There is no such statement in this tenant."""


def lock_statement(statement_id: int) -> Statement:
    """The statement's row, fresh and locked (NO KEY UPDATE). Raises NoSuchStatement."""
    found = Statement.objects.select_for_update(no_key=True, of=("self",)).filter(pk=statement_id).first()
    if found is None:
        raise NoSuchStatement(f"There is no statement {statement_id} here.")
    return found
