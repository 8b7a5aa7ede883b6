"""Reading lines and operations beside each other for a person: a bounded number of each, found by indexes.

What nobody has matched and what could be it: by key, by the receiver's id, by reference, by an amount near it, and some
around it in time, among which words and sums are looked for.
"""

# ruff: noqa: S608 - the statements are made of the fragments below, never of input
from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from django.db import connection

from access.refusals import NotFound
from statements.matching import suggesting
from statements.matching.comparing import Booked, Expected
from statements.matching.models import Match
from statements.matching.running import settings_of
from statements.matching.settings import Settings
from statements.matching.suggesting import Suggestion, Together
from statements.matching.taking import NAMES, SENT

FEW, AROUND, LOOKED_AT = 50, 200, 5000
"""Found each way; found around it in time; rows that the latter are looked for among."""


class NoSuchLine(NotFound):
    """There is no such line in this tenant, or its statement is not applied."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What is offered for one line, or for one operation. `taken`: operations that it names and that have a line."""

    suggestions: list[Suggestion]
    together: list[Together]
    settings: Settings
    taken: list[Expected]


def for_line(line_id: int) -> Offer:
    """Operations for a line of an applied statement. Raises NoSuchLine."""
    booked, receiver_id = booked_line(line_id)
    _, settings = settings_of(receiver_id)
    values = {
        "receiver": receiver_id, "line": line_id, "amount": booked.amount, "tolerance": settings.tolerance,
        "booked_on": booked.booked_on, "window": settings.window_days, "few": FEW, "around": AROUND,
        "looked_at": LOOKED_AT, "words": booked.words, "receivers_id": booked.receivers_id, "reference": booked.reference,
    }  # fmt: skip
    free = _operations(f"{_NAMED} UNION {_REFERRED} UNION {_NEAR} UNION {_AROUND}", _FREE, values)
    taken = _operations(_NAMED, f"NOT {_FREE}", values)
    suggestions = suggesting.operations_for(booked, free, settings)
    together = suggesting.operations_together(booked, free, settings)
    if not together and not any(s.is_exact for s in suggestions):
        # Only where nothing simpler comes to it: among many lines and operations some sets always do.
        values |= {"direction": booked.direction, "currency": booked.currency}
        together = suggesting.both_together(booked, _lines(_LINES_BESIDE, values), free, settings)
    return Offer(suggestions, together, settings, taken)


def for_operation(operation_id: int) -> Offer:
    """Lines for an operation, or for what lines that are parts of it have left; nothing where no amount was approved."""
    ((expected, receiver_id),) = _expected_with_receiver(operation_id)
    _, settings = settings_of(receiver_id)
    if expected.amount is None or expected.sent_on is None:
        return Offer([], [], settings, [])
    expected = replace(expected, amount=expected.amount - _matched_in_part(operation_id))
    values = {
        "receiver": receiver_id, "operation": operation_id, "amount": expected.amount, "tolerance": settings.tolerance,
        "sent_on": expected.sent_on, "window": settings.window_days, "few": FEW, "around": AROUND,
        "looked_at": LOOKED_AT, "direction": settings.direction, "currency": expected.currency,
    }  # fmt: skip
    lines = _lines(_LINES_FOR, values)
    return Offer(
        suggesting.lines_for(expected, lines, settings),
        suggesting.lines_together(expected, lines, settings),
        settings,
        [],
    )


def _matched_in_part(operation_id: int) -> int:
    parts = Match.objects.filter(operation=operation_id, unmade_at__isnull=True, partial=True)
    return sum(parts.values_list("allocated", flat=True))


def booked_line(line_id: int) -> tuple[Booked, int]:
    """A line that counts, and its receiver. Raises NoSuchLine."""
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {_LINE}, l.receiver_id FROM statements_statementline l JOIN statements_statement s"
            " ON s.id = l.statement_id WHERE l.id = %s AND s.state = 'applied'",
            [line_id],
        )
        row = cursor.fetchone()
    if row is None:
        raise NoSuchLine(f"There is no line {line_id} of an applied statement here.")
    return Booked(*row[:-1]), row[-1]


def expected_operation(operation_id: int) -> tuple[Expected, int]:
    """An operation as the ladder sees it, and its receiver."""
    (found,) = _expected_with_receiver(operation_id)
    return found


def _operations(ids: str, which: str, values: dict[str, Any]) -> list[Expected]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH ids AS ({ids}) SELECT {_OPERATION} {_FROM} JOIN ids ON ids.id = o.id WHERE {which}", values
        )
        return [Expected(*row) for row in cursor.fetchall()]


def _expected_with_receiver(operation_id: int) -> list[tuple[Expected, int]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {_OPERATION}, o.receiver_id {_FROM} WHERE o.id = %s", [operation_id])
        return [(Expected(*row[:-1]), row[-1]) for row in cursor.fetchall()]


def _lines(ids: str, values: dict[str, Any]) -> list[Booked]:
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH ids AS ({ids}) SELECT {_LINE} FROM statements_statementline l JOIN ids ON ids.id = l.id"
            f" JOIN statements_statement s ON s.id = l.statement_id WHERE s.state = 'applied' AND {_UNCLAIMED}",
            values,
        )
        return [Booked(*row) for row in cursor.fetchall()]


_LINE = """l.id, l.amount, l.currency, l.direction, l.booked_on, l.account, l.reference, statements_reference(l.reference),
  l.receivers_id, l.text, l.counterparty"""
_OPERATION = """o.id, 'CF-' || lpad(o.job_id::text, greatest(5, length(o.job_id::text)), '0') || '-'
    || lpad(o.ordinal::text, greatest(2, length(o.ordinal::text)), '0'),
  o.amount_minor, o.currency, o.operation_key, (o.first_may_have_been_sent_at AT TIME ZONE t.time_zone)::date, o.account,
  o.record, statements_reference(o.record), o.receipt_id, p.title, pr.recipient, o.state"""
_FROM = """FROM dispatch_operation o JOIN access_tenant t ON t.id = o.tenant_id
  JOIN approvals_proposedoperation p ON p.id = o.proposed_id JOIN approvals_proposal pr ON pr.id = p.proposal_id"""
_FREE = "NOT EXISTS (SELECT FROM statements_match m WHERE m.operation_id = o.id AND m.unmade_at IS NULL)"
_UNCLAIMED = """NOT EXISTS (SELECT FROM statements_match m WHERE m.line_id = l.id AND m.unmade_at IS NULL)
    AND NOT EXISTS (SELECT FROM statements_setaside a WHERE a.line_id = l.id AND a.taken_back_at IS NULL)"""

_NAMED = f"""
(SELECT o.id FROM (SELECT DISTINCT upper(found[1]) AS word FROM {NAMES.format(text="%(words)s")}) n
  JOIN dispatch_operation o ON o.key_hash = hashtextextended(n.word, 0) AND upper(o.operation_key) = n.word
  WHERE {SENT} LIMIT %(few)s)
UNION
(SELECT o.id FROM dispatch_operation o WHERE o.receipt_id IN (%(receivers_id)s, %(reference)s) AND o.receipt_id <> ''
  AND {SENT} LIMIT %(few)s)"""
_REFERRED = f"""
(SELECT o.id FROM dispatch_operation o JOIN statements_statementline l ON l.id = %(line)s
  WHERE o.reference_hash = l.reference_hash AND {SENT} AND {_FREE} ORDER BY o.id DESC LIMIT %(few)s)"""
_NEAR = f"""
(SELECT o.id FROM dispatch_operation o
  WHERE o.amount_minor BETWEEN %(amount)s - %(tolerance)s AND %(amount)s + %(tolerance)s AND {SENT} AND {_FREE}
  ORDER BY abs(o.first_may_have_been_sent_at::date - %(booked_on)s::date), o.id LIMIT %(few)s)"""
_AROUND = f"""
(SELECT id FROM (
    SELECT o.id, o.first_may_have_been_sent_at AS at FROM dispatch_operation o
    WHERE {SENT} AND {_FREE} ORDER BY o.id DESC LIMIT %(looked_at)s) o
  WHERE at::date BETWEEN %(booked_on)s::date - %(window)s - 1 AND %(booked_on)s::date + 1
  ORDER BY id DESC LIMIT %(around)s)"""
_LINES_BESIDE = f"""
(SELECT id FROM (
    SELECT l.id, l.booked_on FROM statements_statementline l
    WHERE l.receiver_id = %(receiver)s AND l.direction = %(direction)s AND l.currency = %(currency)s
    ORDER BY l.id DESC LIMIT %(looked_at)s) l
  WHERE booked_on BETWEEN %(booked_on)s::date - %(window)s AND %(booked_on)s::date + %(window)s AND {_UNCLAIMED}
  ORDER BY id DESC LIMIT %(around)s)"""
_LINES_FOR = f"""
(SELECT l.id FROM statements_statementline l JOIN dispatch_operation o ON o.id = %(operation)s
  WHERE l.receiver_id = %(receiver)s AND l.reference_hash = o.reference_hash AND {_UNCLAIMED} ORDER BY l.id DESC LIMIT %(few)s)
UNION
(SELECT l.id FROM statements_statementline l
  WHERE l.receiver_id = %(receiver)s AND l.direction = %(direction)s AND l.currency = %(currency)s AND {_UNCLAIMED}
    AND l.amount BETWEEN %(amount)s - %(tolerance)s AND %(amount)s + %(tolerance)s
  ORDER BY abs(l.booked_on - %(sent_on)s::date), l.id LIMIT %(few)s)
UNION
(SELECT id FROM (
    SELECT l.id, l.booked_on FROM statements_statementline l
    WHERE l.receiver_id = %(receiver)s AND l.direction = %(direction)s AND l.currency = %(currency)s
    ORDER BY l.id DESC LIMIT %(looked_at)s) l
  WHERE booked_on BETWEEN %(sent_on)s::date - 1 AND %(sent_on)s::date + %(window)s AND {_UNCLAIMED}
  ORDER BY id DESC LIMIT %(around)s)"""
