"""The only place that locks statements: after jobs and operations, and after a run; before a statement's case.

Until it is applied its lines, errors and repeated rows are written by whoever holds it, and by nobody else; from then on
what is said of its lines (matches, and what is set aside) is.
"""

from __future__ import annotations

from collections.abc import Collection

from access.refusals import NotFound
from statements.models import Statement, StatementLine


class NoSuchStatement(NotFound):
    """There is no such statement in this tenant."""


def lock_statements(line_ids: Collection[int]) -> None:
    """Those that lines are of, in the order of their ids."""
    of = StatementLine.objects.filter(pk__in=line_ids).values("statement")
    rows = Statement.objects.select_for_update(no_key=True, of=("self",)).filter(pk__in=of)
    list(rows.order_by("pk").values_list("pk", flat=True))


def lock_statement(statement_id: int) -> Statement:
    """The statement's row, fresh and locked (NO KEY UPDATE). Raises NoSuchStatement."""
    found = Statement.objects.select_for_update(no_key=True, of=("self",)).filter(pk=statement_id).first()
    if found is None:
        raise NoSuchStatement(f"There is no statement {statement_id} here.")
    return found
