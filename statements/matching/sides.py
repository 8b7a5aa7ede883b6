"""What a receiver booked beside what was settled here, in one currency: both sums, and the parts of their difference.

Lines of a scope (a statement, or days of an account) on one side, operations that are confirmed and were sent on its days
on the other. What is on one side only is listed; nothing is concluded from it: a line that is not there proves nothing.
"""

# ruff: noqa: S608 - the statements are made of the fragments below, never of input
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any

from django.db import connection

from dispatch.minor import as_amount
from statements.models import StatementLine
from statements.queries import LineView

LISTED = 50
_PART = "part"


@dataclass(frozen=True, slots=True)
class Scope:
    """Which lines, and which days: those of one statement, or of all applied ones of an account. `zone`: whose days."""

    receiver_id: int
    account: str
    direction: str
    first: date
    last: date
    zone: str
    statement_id: int | None = None

    @property
    def values(self) -> dict[str, Any]:
        return {
            "receiver": self.receiver_id, "account": self.account, "direction": self.direction, "first": self.first,
            "last": self.last, "zone": self.zone, "statement": self.statement_id, "listed": LISTED,
        }  # fmt: skip


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
class Side:
    """Both sums of one currency, the residual, and the parts that add up to it."""

    currency: str
    booked: Sum
    settled: Sum
    parts: Sequence[Sum]
    operations_without_line: Sequence[Without]
    lines_without_operation: Sequence[LineView]

    @property
    def residual(self) -> Decimal:
        """Booked less settled."""
        return self.booked.amount - self.settled.amount

    @property
    def explained(self) -> bool:
        """Whether the parts add up to the residual, as they must."""
        return sum((p.amount for p in self.parts), Decimal(0)) == self.residual


def currencies(scope: Scope) -> list[str]:
    """Those of its lines and of the operations of its days."""
    with connection.cursor() as cursor:
        cursor.execute(_CURRENCIES, scope.values)
        return [row[0] for row in cursor.fetchall()]


def side(scope: Scope, currency: str) -> Side:
    """Both sides in one currency. Four queries, and one for the lines that are listed."""
    values = {**scope.values, "currency": currency}
    with connection.cursor() as cursor:
        cursor.execute(_LINES, values)
        (
            lines,
            line_sum,
            aside,
            aside_sum,
            free,
            free_sum,
            outside,
            outside_count,
            unsettled,
            unsettled_count,
        ) = cursor.fetchone()
        cursor.execute(_OPERATIONS, values)
        operations, operation_sum, without, without_sum, elsewhere, elsewhere_sum = cursor.fetchone()
        cursor.execute(_DIFFERENCES, values)
        booked = cursor.fetchall()
        cursor.execute(f"{_WITHOUT} ORDER BY o.id LIMIT %(listed)s", values)
        listed = [
            Without(operation, job, label, title, as_amount(minor, currency), sent_on)
            for operation, job, label, title, minor, sent_on in cursor.fetchall()
        ]
    units = partial(as_amount, currency=currency)
    named = [
        (free, free_sum, "line that no operation claims", "lines that no operation claims"),
        (aside, aside_sum, "line that was set aside", "lines that were set aside"),
        (without, -without_sum, "confirmed operation without a line", "confirmed operations without a line"),
        (
            outside_count,
            outside,
            "line of an operation that was sent on another day",
            "lines of operations that were sent on other days",
        ),
        (
            unsettled_count,
            unsettled,
            "line of an operation that is not settled",
            "lines of operations that are not settled",
        ),
        (
            elsewhere,
            -elsewhere_sum,
            "operation whose line is in another statement",
            "operations whose line is in another statement",
        ),
    ]
    parts = [Sum(one if count == 1 else many, count, units(amount)) for count, amount, one, many in named]
    parts += [Sum(_booked_as(kind, count), count, units(amount)) for kind, count, amount in booked]
    return Side(
        currency,
        Sum("lines", lines, units(line_sum)),
        Sum("confirmed operations", operations, units(operation_sum)),
        [p for p in parts if p.count or p.amount],
        listed,
        _listed_lines(scope, currency),
    )


def _booked_as(kind: str, count: int) -> str:
    if kind == _PART:
        what = "operation that its lines" if count == 1 else "operations that their lines"
        return f"{what} are only a part of"
    what = "difference" if count == 1 else "differences"
    return f"{what} booked as {kind}" if kind else f"{what} that two people have accepted"


def _listed_lines(scope: Scope, currency: str) -> list[LineView]:
    with connection.cursor() as cursor:
        cursor.execute(f"{_FREE} ORDER BY l.id LIMIT %(listed)s", {**scope.values, "currency": currency})
        ids = [row[0] for row in cursor.fetchall()]
    rows = StatementLine.objects.filter(pk__in=ids).select_related("statement")
    return [LineView(line) for line in rows.order_by("booked_on", "pk")]


IN_SCOPE = """l.direction = %(direction)s AND l.statement_id IN (
    SELECT s.id FROM statements_statement s WHERE s.id = %(statement)s OR %(statement)s::bigint IS NULL
      AND s.receiver_id = %(receiver)s AND s.account = %(account)s AND s.state = 'applied'
      AND s.first_booked_on <= %(last)s::date AND s.last_booked_on >= %(first)s::date)
  AND (%(statement)s::bigint IS NOT NULL OR l.booked_on BETWEEN %(first)s::date AND %(last)s::date)"""
"""The scope's lines, of any currency."""
_ASIDE = "EXISTS (SELECT FROM statements_setaside a WHERE a.line_id = l.id AND a.taken_back_at IS NULL)"
_MATCHED = "EXISTS (SELECT FROM statements_match m WHERE m.line_id = l.id AND m.unmade_at IS NULL)"
_FREE = f"""SELECT l.id FROM statements_statementline l
WHERE {IN_SCOPE} AND l.currency = %(currency)s AND NOT {_ASIDE} AND NOT {_MATCHED}"""
_SENT_IN = """o.receiver_id = %(receiver)s AND o.state = 'CONFIRMED' AND o.amount_minor IS NOT NULL
  AND (o.account = '' OR %(account)s = '' OR o.account = %(account)s)
  AND (o.first_may_have_been_sent_at AT TIME ZONE %(zone)s)::date BETWEEN %(first)s::date AND %(last)s::date"""
SETTLED = f"{_SENT_IN} AND o.currency = %(currency)s"
"""Operations that are confirmed and were sent on the scope's days."""
_CURRENCIES = f"""
SELECT l.currency FROM statements_statementline l WHERE {IN_SCOPE}
UNION SELECT o.currency FROM dispatch_operation o WHERE {_SENT_IN} ORDER BY 1
"""
_LINES = f"""
WITH l AS (
  SELECT l.id, l.amount, {_ASIDE} AS aside FROM statements_statementline l
  WHERE {IN_SCOPE} AND l.currency = %(currency)s
), pairs AS (
  SELECT l.id, m.line_place, l.amount, m.allocated, {SETTLED} AS inside, o.state <> 'CONFIRMED' AS unsettled
  FROM l JOIN statements_match m ON m.line_id = l.id AND m.unmade_at IS NULL
  JOIN dispatch_operation o ON o.id = m.operation_id
), sums AS (
  SELECT count(*) AS n, coalesce(sum(amount), 0) AS s, count(*) FILTER (WHERE aside) AS aside,
    coalesce(sum(amount) FILTER (WHERE aside), 0) AS aside_sum FROM l
), matched AS (
  SELECT count(*) FILTER (WHERE line_place = 0) AS n, coalesce(sum(amount) FILTER (WHERE line_place = 0), 0) AS s,
    coalesce(sum(allocated) FILTER (WHERE NOT inside AND NOT unsettled), 0) AS outside,
    count(*) FILTER (WHERE NOT inside AND NOT unsettled) AS others,
    coalesce(sum(allocated) FILTER (WHERE unsettled), 0) AS open, count(*) FILTER (WHERE unsettled) AS opens FROM pairs
)
SELECT sums.n, sums.s::bigint, sums.aside, aside_sum::bigint, sums.n - sums.aside - matched.n,
  (sums.s - aside_sum - matched.s)::bigint, outside::bigint, others, open::bigint, opens FROM sums, matched
"""
_OPERATIONS = f"""
WITH o AS (
  SELECT o.id, o.amount_minor FROM dispatch_operation o WHERE {SETTLED}
), pairs AS (
  SELECT o.amount_minor, m.operation_place, m.allocated, {IN_SCOPE} AS here
  FROM o JOIN statements_match m ON m.operation_id = o.id AND m.unmade_at IS NULL
  JOIN statements_statementline l ON l.id = m.line_id
)
SELECT (SELECT count(*) FROM o), (SELECT coalesce(sum(amount_minor), 0) FROM o)::bigint,
  (SELECT count(*) FROM o) - count(*) FILTER (WHERE operation_place = 0),
  ((SELECT coalesce(sum(amount_minor), 0) FROM o) - coalesce(sum(amount_minor) FILTER (WHERE operation_place = 0), 0))::bigint,
  count(*) FILTER (WHERE NOT here), coalesce(sum(allocated) FILTER (WHERE NOT here), 0)::bigint
FROM pairs
"""
_OFF = f"""
  SELECT min(m.id) AS id, max(m.apart_as) AS kind, l.amount - sum(m.allocated) AS off, l.id AS line_id,
    min(m.operation_id) AS operation_id
  FROM statements_statementline l JOIN statements_match m ON m.line_id = l.id AND m.unmade_at IS NULL
  WHERE {IN_SCOPE} AND l.currency = %(currency)s GROUP BY l.id, l.amount HAVING l.amount <> sum(m.allocated)
  UNION ALL
  SELECT min(m.id), CASE WHEN bool_or(m.partial) THEN '{_PART}' ELSE max(m.apart_as) END, sum(m.allocated) - o.amount_minor, min(m.line_id), o.id
  FROM dispatch_operation o JOIN statements_match m ON m.operation_id = o.id AND m.unmade_at IS NULL
  WHERE {SETTLED} GROUP BY o.id, o.amount_minor HAVING o.amount_minor <> sum(m.allocated)"""
"""Lines of which more was booked, and operations of which less was, than the other side has: never both in one set."""
_DIFFERENCES = f"SELECT kind, count(*), sum(off)::bigint FROM ({_OFF}) o GROUP BY kind ORDER BY kind"
_WITHOUT = f"""
SELECT o.id, o.job_id, 'CF-' || lpad(o.job_id::text, greatest(5, length(o.job_id::text)), '0') || '-'
    || lpad(o.ordinal::text, greatest(2, length(o.ordinal::text)), '0'), p.title, o.amount_minor,
  to_char(o.first_may_have_been_sent_at AT TIME ZONE %(zone)s, 'YYYY-MM-DD')
FROM dispatch_operation o JOIN approvals_proposedoperation p ON p.id = o.proposed_id
WHERE {SETTLED}
  AND NOT EXISTS (SELECT FROM statements_match m WHERE m.operation_id = o.id AND m.unmade_at IS NULL)
"""

MADE_OF = {
    "line that no operation claims": f"""
SELECT l.id, l.amount, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference, l.text, ''
FROM statements_statementline l WHERE {IN_SCOPE} AND l.currency = %(currency)s AND NOT {_ASIDE} AND NOT {_MATCHED}
  AND l.id > %(after)s ORDER BY l.id LIMIT %(listed)s""",
    "line that was set aside": f"""
SELECT l.id, l.amount, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference, l.text,
  (SELECT a.kind FROM statements_setaside a WHERE a.line_id = l.id AND a.taken_back_at IS NULL)
FROM statements_statementline l WHERE {IN_SCOPE} AND l.currency = %(currency)s AND {_ASIDE}
  AND l.id > %(after)s ORDER BY l.id LIMIT %(listed)s""",
    "confirmed operation without a line": f"""
SELECT id, -amount_minor, sent_on, '', '', '', title, label
FROM ({_WITHOUT}) o (id, job_id, label, title, amount_minor, sent_on)
WHERE id > %(after)s ORDER BY id LIMIT %(listed)s""",
    "line of an operation that was sent on another day": f"""
SELECT m.id, m.allocated, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference, l.text,
  o.operation_key
FROM statements_statementline l JOIN statements_match m ON m.line_id = l.id AND m.unmade_at IS NULL
JOIN dispatch_operation o ON o.id = m.operation_id
WHERE {IN_SCOPE} AND l.currency = %(currency)s AND NOT ({SETTLED}) AND o.state = 'CONFIRMED' AND m.id > %(after)s ORDER BY m.id LIMIT %(listed)s""",
    "line of an operation that is not settled": f"""
SELECT m.id, m.allocated, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference, l.text,
  o.operation_key
FROM statements_statementline l JOIN statements_match m ON m.line_id = l.id AND m.unmade_at IS NULL
JOIN dispatch_operation o ON o.id = m.operation_id
WHERE {IN_SCOPE} AND l.currency = %(currency)s AND o.state <> 'CONFIRMED' AND m.id > %(after)s ORDER BY m.id LIMIT %(listed)s""",
    "operation whose line is in another statement": f"""
SELECT m.id, -m.allocated, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference, l.text,
  o.operation_key
FROM dispatch_operation o JOIN statements_match m ON m.operation_id = o.id AND m.unmade_at IS NULL
JOIN statements_statementline l ON l.id = m.line_id
WHERE {SETTLED} AND NOT ({IN_SCOPE}) AND m.id > %(after)s ORDER BY m.id LIMIT %(listed)s""",
    "difference that two people have booked": f"""
SELECT d.id, d.off::bigint, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference,
  concat_ws(': ', nullif(d.kind, ''), (SELECT m.reason FROM statements_match m WHERE m.id = d.id)), p.operation_key
FROM ({_OFF}) d JOIN statements_statementline l ON l.id = d.line_id JOIN dispatch_operation p ON p.id = d.operation_id
WHERE d.kind <> '{_PART}' AND d.id > %(after)s ORDER BY d.id LIMIT %(listed)s""",
    "operation that its lines are only a part of": f"""
SELECT d.id, d.off::bigint, l.booked_on::text, 'STMT-' || l.statement_id, l.row_number::text, l.reference, l.text,
  p.operation_key
FROM ({_OFF}) d JOIN statements_statementline l ON l.id = d.line_id JOIN dispatch_operation p ON p.id = d.operation_id
WHERE d.kind = '{_PART}' AND d.id > %(after)s ORDER BY d.id LIMIT %(listed)s""",
}
"""What each part is made of, a page at a time: key, amount, day, statement, row, reference, text, and what else names it."""
