"""What the machine takes by itself: the first rungs of the ladder as statements over a batch of lines.

A line that fits two operations, or an operation that fits two lines by reference, gets neither. What a person has matched
is never looked at, and a pair that a person has taken apart is never put together again. Each statement finds by
indexes only: a plan that reads a table would be made again for each batch. Taking the same batch twice takes nothing
the second time.
"""

# ruff: noqa: S608 - the statements are made of the fragments below, never of input
from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from typing import Any

from django.db import connection

from dispatch.states import WITHOUT_EFFECT, OperationState
from statements.matching.ladder import VERSION, Tier
from statements.matching.settings import Settings


class Rung(IntEnum):
    """The passes of one run, in their order. Each walks over all of the run's lines."""

    OUR_KEY = 0
    RECEIVERS_ID = 1
    DIFFERENCES = 2  # after both: a line that differs is none where another one agrees
    REFERENCE = 3


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines of one statement, by the rows of its file: after the one, up to the other."""

    receiver_id: int
    statement_id: int
    after: int
    upto: int


@dataclass(frozen=True, slots=True)
class Taken:
    """How many matches were made, and how many lines were found to differ."""

    matches: int = 0
    differing: int = 0


def rungs(settings: Settings) -> tuple[Rung, ...]:
    """Those that a receiver's settings allow."""
    return tuple(r for r in Rung if r is not Rung.REFERENCE or settings.takes_references)


def take(rung: Rung, batch: Batch, settings: Settings, *, settings_version: int, now: datetime) -> Taken:
    """One rung over one batch, inside the caller's transaction and scope."""
    values: dict[str, Any] = {
        "receiver": batch.receiver_id,
        "statement": batch.statement_id,
        "after": batch.after,
        "upto": batch.upto,
        "direction": settings.direction,
        "settings_version": settings_version,
        "rule_version": VERSION,
        "now": now,
        "without_effect": WITHOUT_EFFECT,
        "confirmed": OperationState.CONFIRMED.value,
    }
    with connection.cursor() as cursor:
        cursor.execute(_BY_INDEXES)
        cursor.execute(_STATEMENTS[rung], values)
        (count,) = cursor.fetchone()
    return Taken(differing=count) if rung is Rung.DIFFERENCES else Taken(matches=count)


_BY_INDEXES = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true)
"""

_BATCH = """
batch AS MATERIALIZED (
  SELECT l.id, l.amount, l.currency, l.direction, l.account, l.booked_on, l.reference, l.reference_hash, l.receivers_id,
    l.text
  FROM statements_statementline l
  WHERE l.statement_id = %(statement)s AND l.row_number > %(after)s AND l.row_number <= %(upto)s
    AND l.receiver_id = %(receiver)s AND l.direction = %(direction)s
    AND NOT EXISTS (SELECT FROM statements_match m WHERE m.line_id = l.id AND m.unmade_at IS NULL)
)"""

SENT = """o.receiver_id = %(receiver)s AND o.amount_minor IS NOT NULL AND o.first_may_have_been_sent_at IS NOT NULL"""
_FREE = "NOT EXISTS (SELECT FROM statements_match m WHERE m.operation_id = o.id AND m.unmade_at IS NULL)"
_NOT_TAKEN_APART = """NOT EXISTS (SELECT FROM statements_match m
  WHERE m.line_id = {line} AND m.operation_id = {operation} AND m.unmade_at IS NOT NULL)"""
_ACCOUNTS_FIT = "(b.account = '' OR o.account = '' OR b.account = o.account)"
_EQUAL = f"b.amount = o.amount_minor AND b.currency = o.currency AND {_ACCOUNTS_FIT}"

# A key passes on to a later operation where the earlier one had no effect: the line is about the later one.
_BY_KEY = f"""
pairs AS (
  SELECT b.id AS line_id, o.id AS operation_id, named.word AS what
  FROM batch b
  CROSS JOIN LATERAL (
    SELECT DISTINCT upper(found[1]) AS word
    FROM regexp_matches(concat_ws(' ', b.reference, b.receivers_id, b.text), '[[:alnum:]_-]{{12,100}}', 'g') AS found
  ) named
  CROSS JOIN LATERAL (
    SELECT o.id FROM dispatch_operation o
    WHERE o.key_hash = hashtextextended(named.word, 0) AND upper(o.operation_key) = named.word AND {SENT}
    ORDER BY o.state = ANY(%(without_effect)s), o.id DESC LIMIT 1
  ) o
)"""
_BY_ID = f"""
pairs AS (
  SELECT DISTINCT b.id AS line_id, o.id AS operation_id, named.word AS what
  FROM batch b
  CROSS JOIN LATERAL (VALUES (b.receivers_id), (b.reference)) named(word)
  CROSS JOIN LATERAL (
    SELECT o.id FROM dispatch_operation o
    WHERE o.receipt_id = named.word AND o.receipt_id <> '' AND {SENT} LIMIT 2
  ) o
  WHERE named.word <> ''
)"""
_ALONE = """
alone AS (
  SELECT * FROM (SELECT p.*, count(*) OVER (PARTITION BY p.line_id) AS fitting FROM pairs p) p WHERE fitting = 1
)"""
# Two lines under one key: the operation was applied by either, so the first is its line, and the other stays unclaimed.
_CHOSEN = f"""
chosen AS (
  SELECT DISTINCT ON (a.operation_id) a.line_id, a.operation_id, a.what
  FROM alone a JOIN batch b ON b.id = a.line_id JOIN dispatch_operation o ON o.id = a.operation_id
  WHERE {_EQUAL} AND {_FREE} AND {_NOT_TAKEN_APART.format(line="b.id", operation="o.id")}
  ORDER BY a.operation_id, a.line_id
)"""
_BY_REFERENCE = f"""
chosen AS (
  SELECT b.id AS line_id, o.id AS operation_id, b.reference AS what
  FROM batch b
  CROSS JOIN LATERAL (
    SELECT min(fits.id) AS id FROM (
      SELECT o.id FROM dispatch_operation o
      WHERE o.reference_hash = b.reference_hash AND statements_reference(o.record) = statements_reference(b.reference)
        AND o.amount_minor = b.amount AND o.currency = b.currency AND {SENT} AND {_FREE}
      LIMIT 2
    ) fits HAVING count(*) = 1
  ) one
  CROSS JOIN LATERAL (
    SELECT FROM (
      SELECT FROM statements_statementline l JOIN statements_statement s ON s.id = l.statement_id
      WHERE l.receiver_id = %(receiver)s AND l.reference_hash = b.reference_hash
        AND statements_reference(l.reference) = statements_reference(b.reference)
        AND l.amount = b.amount AND l.currency = b.currency AND l.direction = b.direction AND s.state = 'applied'
        AND NOT EXISTS (SELECT FROM statements_match m WHERE m.line_id = l.id AND m.unmade_at IS NULL)
      LIMIT 2
    ) alike HAVING count(*) = 1
  ) line
  JOIN dispatch_operation o ON o.id = one.id
  JOIN access_tenant t ON t.id = o.tenant_id
  WHERE b.reference_hash IS NOT NULL AND {_ACCOUNTS_FIT}
    AND b.booked_on >= (o.first_may_have_been_sent_at AT TIME ZONE t.time_zone)::date - 1
    AND {_NOT_TAKEN_APART.format(line="b.id", operation="o.id")}
)"""


def _made(tier: Tier, named: str) -> str:
    """Insert the chosen pairs, and what has to be taken into operations that are not confirmed."""
    return f"""
made AS (
  INSERT INTO statements_match (tenant_id, line_id, operation_id, line_place, operation_place, together, allocated, tier,
    rule_version, settings_version, compared, within_tolerance, reason, made_at)
  SELECT o.tenant_id, c.line_id, c.operation_id, 0, 0, '', o.amount_minor, {int(tier)}, %(rule_version)s,
    %(settings_version)s,
    json_build_array(json_build_array('{named}', c.what, {_OTHER_VALUE[tier]}),
      json_build_array('amount', b.amount::text, o.amount_minor::text),
      json_build_array('currency', b.currency, o.currency), json_build_array('account', b.account, o.account))::text,
    false, '', %(now)s
  FROM chosen c JOIN batch b ON b.id = c.line_id JOIN dispatch_operation o ON o.id = c.operation_id
  ON CONFLICT DO NOTHING
  RETURNING id, tenant_id, line_id, operation_id, compared
), found AS (
  INSERT INTO statements_finding (tenant_id, line_id, operation_id, match_id, says, compared, found_at, effect)
  SELECT m.tenant_id, m.line_id, m.operation_id, m.id, 'applied', m.compared, %(now)s, ''
  FROM made m JOIN dispatch_operation o ON o.id = m.operation_id WHERE o.state <> %(confirmed)s
)
SELECT count(*) FROM made"""


_OTHER_VALUE = {
    Tier.OUR_KEY: "o.operation_key",
    Tier.RECEIVERS_ID: "o.receipt_id",
    Tier.REFERENCE: "o.record",
}
_DIFFERING = f"""
found AS (
  INSERT INTO statements_finding (tenant_id, line_id, operation_id, says, compared, found_at, effect)
  SELECT o.tenant_id, b.id, o.id, 'differs',
    json_build_array(json_build_array('our key', a.what, o.operation_key),
      json_build_array('amount', b.amount::text, o.amount_minor::text),
      json_build_array('currency', b.currency, o.currency), json_build_array('account', b.account, o.account))::text,
    %(now)s, ''
  FROM alone a JOIN batch b ON b.id = a.line_id JOIN dispatch_operation o ON o.id = a.operation_id
  WHERE NOT ({_EQUAL}) AND {_FREE}
  ON CONFLICT DO NOTHING RETURNING 1
)
SELECT count(*) FROM found"""

_STATEMENTS = {
    Rung.OUR_KEY: f"WITH {_BATCH}, {_BY_KEY}, {_ALONE}, {_CHOSEN}, {_made(Tier.OUR_KEY, 'our key')}",
    Rung.RECEIVERS_ID: f"WITH {_BATCH}, {_BY_ID}, {_ALONE}, {_CHOSEN}, {_made(Tier.RECEIVERS_ID, 'receiver’s id')}",
    Rung.DIFFERENCES: f"WITH {_BATCH}, {_BY_KEY}, {_ALONE}, {_DIFFERING}",
    Rung.REFERENCE: f"WITH {_BATCH}, {_BY_REFERENCE}, {_made(Tier.REFERENCE, 'reference')}",
}
