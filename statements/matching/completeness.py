"""What a receiver booked against what was settled here, and what makes the difference, to the cent.

Lines of a statement on one side, operations that are confirmed and were sent in its days on the other. What is on one
side only is listed; nothing is concluded from it: a line that is not there proves nothing.
"""

# ruff: noqa: S608 - the statements are made of the fragments below, never of input
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import connection

from dispatch.minor import as_amount
from statements.matching.queries import unclaimed_lines
from statements.matching.running import settings_of
from statements.models import Statement, StatementState
from statements.queries import LineView, statement

LISTED = 50


@dataclass(frozen=True, slots=True)
class Sum:
    """A count and what it comes to."""

    what: str
    count: int
    amount: Decimal


@dataclass(frozen=True, slots=True)
class Without:
    """A confirmed operation that no line is matched with."""

    operation_id: int
    job_id: int
    label: str
    title: str
    amount: Decimal
    sent_on: str


@dataclass(frozen=True, slots=True)
class Completeness:
    """Both sums, the residual, and the parts that add up to it. Empty where lines have several currencies."""

    statement: Statement
    currency: str
    booked: Sum | None
    settled: Sum | None
    parts: Sequence[Sum]
    operations_without_line: Sequence[Without]
    lines_without_operation: Sequence[LineView]
    balances: tuple[Decimal, Decimal, Decimal] | None
    """Opening, closing, and by how much opening and lines miss the closing; None where the file has no balances."""

    @property
    def residual(self) -> Decimal:
        """Booked less settled."""
        return self.booked.amount - self.settled.amount if self.booked and self.settled else Decimal(0)

    @property
    def explained(self) -> bool:
        """Whether the parts add up to the residual, as they must."""
        return sum((p.amount for p in self.parts), Decimal(0)) == self.residual


def of_statement(statement_id: int) -> Completeness:
    """Of one applied statement; of another, and of one in several currencies, without sums. Raises NoSuchStatement."""
    found = statement(statement_id)
    if found.state != StatementState.APPLIED or not found.currency or found.first_booked_on is None:
        return Completeness(found, found.currency, None, None, [], [], [], None)
    _, settings = settings_of(found.receiver_id)
    values: dict[str, Any] = {
        "statement": found.pk, "receiver": found.receiver_id, "currency": found.currency, "account": found.account,
        "direction": settings.direction, "first": found.first_booked_on, "last": found.last_booked_on, "listed": LISTED,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(_LINES, values)
        lines, line_sum, unclaimed, unclaimed_sum, matched_sum, inside, outside, outside_count = (
            cursor.fetchone()
        )
        cursor.execute(_OPERATIONS, values)
        operations, operation_sum, without, without_sum, elsewhere, elsewhere_sum, matched, here = (
            cursor.fetchone()
        )
        cursor.execute(_WITHOUT, values)
        listed = [
            Without(operation, job, label, title, as_amount(minor, found.currency), sent_on)
            for operation, job, label, title, minor, sent_on in cursor.fetchall()
        ]
    units = partial(as_amount, currency=found.currency)
    parts = [
        Sum(
            _some(unclaimed, "line that no operation claims", "lines that no operation claims"),
            unclaimed,
            units(unclaimed_sum),
        ),
        Sum(
            _some(without, "confirmed operation without a line", "confirmed operations without a line"),
            without,
            units(-without_sum),
        ),
        Sum(
            _some(
                outside_count,
                "line of an operation that was sent on another day",
                "lines of operations that were sent on other days",
            ),
            outside_count,
            units(outside),
        ),
        Sum(
            _some(
                elsewhere,
                "operation whose line is in another statement",
                "operations whose line is in another statement",
            ),
            elsewhere,
            units(-elsewhere_sum),
        ),
        Sum(
            "differences that two people have accepted",
            0,
            units(matched_sum - inside - outside - (matched - here)),
        ),
    ]
    free, _ = unclaimed_lines(found.pk)
    return Completeness(
        found,
        found.currency,
        Sum("lines", lines, units(line_sum)),
        Sum("confirmed operations", operations, units(operation_sum)),
        [p for p in parts if p.count or p.amount],
        listed,
        [v for v in free if v.line.direction == settings.direction],
        _balances(found),
    )


def _some(count: int, one: str, many: str) -> str:
    return one if count == 1 else many


def _balances(found: Statement) -> tuple[Decimal, Decimal, Decimal] | None:
    if found.opening is None or found.closing is None:
        return None
    missed = found.closing - (found.opening + found.amount_in - found.amount_out)
    opening, closing, off = (as_amount(m, found.currency) for m in (found.opening, found.closing, missed))
    return opening, closing, off


_SENT_IN = """(o.first_may_have_been_sent_at AT TIME ZONE t.time_zone)::date BETWEEN %(first)s::date AND %(last)s::date"""
_IN_SCOPE = f"""o.receiver_id = %(receiver)s AND o.currency = %(currency)s AND o.state = 'CONFIRMED'
  AND (o.account = '' OR %(account)s = '' OR o.account = %(account)s) AND {_SENT_IN}"""
_LINES = f"""
WITH l AS (
  SELECT l.id, l.amount FROM statements_statementline l
  WHERE l.statement_id = %(statement)s AND l.direction = %(direction)s AND l.currency = %(currency)s
), pairs AS (
  SELECT l.id, m.line_place, l.amount, m.allocated, {_IN_SCOPE} AS inside
  FROM l JOIN statements_match m ON m.line_id = l.id AND m.unmade_at IS NULL
  JOIN dispatch_operation o ON o.id = m.operation_id JOIN access_tenant t ON t.id = o.tenant_id
)
SELECT (SELECT count(*) FROM l), (SELECT coalesce(sum(amount), 0) FROM l)::bigint,
  (SELECT count(*) FROM l) - count(*) FILTER (WHERE line_place = 0),
  ((SELECT coalesce(sum(amount), 0) FROM l) - coalesce(sum(amount) FILTER (WHERE line_place = 0), 0))::bigint,
  coalesce(sum(amount) FILTER (WHERE line_place = 0), 0)::bigint,
  coalesce(sum(allocated) FILTER (WHERE inside), 0)::bigint, coalesce(sum(allocated) FILTER (WHERE NOT inside), 0)::bigint,
  count(*) FILTER (WHERE NOT inside)
FROM pairs
"""
_OPERATIONS = f"""
WITH o AS (
  SELECT o.id, o.amount_minor FROM dispatch_operation o JOIN access_tenant t ON t.id = o.tenant_id
  WHERE {_IN_SCOPE} AND o.amount_minor IS NOT NULL
), pairs AS (
  SELECT o.amount_minor, m.operation_place, m.allocated, l.statement_id = %(statement)s AS here
  FROM o JOIN statements_match m ON m.operation_id = o.id AND m.unmade_at IS NULL
  JOIN statements_statementline l ON l.id = m.line_id
)
SELECT (SELECT count(*) FROM o), (SELECT coalesce(sum(amount_minor), 0) FROM o)::bigint,
  (SELECT count(*) FROM o) - count(*) FILTER (WHERE operation_place = 0),
  ((SELECT coalesce(sum(amount_minor), 0) FROM o) - coalesce(sum(amount_minor) FILTER (WHERE operation_place = 0), 0))::bigint,
  count(*) FILTER (WHERE NOT here), coalesce(sum(allocated) FILTER (WHERE NOT here), 0)::bigint,
  coalesce(sum(amount_minor) FILTER (WHERE operation_place = 0), 0)::bigint - coalesce(sum(allocated) FILTER (WHERE NOT here), 0)::bigint,
  coalesce(sum(allocated) FILTER (WHERE here), 0)::bigint
FROM pairs
"""
_WITHOUT = f"""
SELECT o.id, o.job_id, 'CF-' || lpad(o.job_id::text, greatest(5, length(o.job_id::text)), '0') || '-'
    || lpad(o.ordinal::text, greatest(2, length(o.ordinal::text)), '0'), p.title, o.amount_minor,
  to_char(o.first_may_have_been_sent_at AT TIME ZONE t.time_zone, 'YYYY-MM-DD')
FROM dispatch_operation o JOIN access_tenant t ON t.id = o.tenant_id
JOIN approvals_proposedoperation p ON p.id = o.proposed_id
WHERE {_IN_SCOPE} AND o.amount_minor IS NOT NULL
  AND NOT EXISTS (SELECT FROM statements_match m WHERE m.operation_id = o.id AND m.unmade_at IS NULL)
ORDER BY o.id LIMIT %(listed)s
"""
