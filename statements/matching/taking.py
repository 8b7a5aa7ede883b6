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


# Tables that were filled a minute ago have no statistics. How plans are kept is left alone: the checks of foreign keys keep
# theirs, and would be planned anew for each row if every plan had to be made for its values.
_BY_INDEXES = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true)
"""

# What is looked up for each row stands in a lateral query of its own, which cannot become a scan of the table. Hashes are
# worked out before they are looked up: under the policies no function may stand beside an index's column.
_CLAIMED = """coalesce((SELECT m.id FROM statements_match m WHERE m.line_id = {line} AND m.unmade_at IS NULL LIMIT 1),
    (SELECT a.id FROM statements_setaside a WHERE a.line_id = {line} AND a.taken_back_at IS NULL LIMIT 1))"""
"""By an operation, or by a person who has set it aside."""
_HAS_LINE = (
    "(SELECT m.id FROM statements_match m WHERE m.operation_id = {operation} AND m.unmade_at IS NULL LIMIT 1)"
)
_TAKEN_APART = """(SELECT m.id FROM statements_match m
    WHERE m.line_id = {line} AND m.operation_id = {operation} AND m.unmade_at IS NOT NULL LIMIT 1)"""
_BATCH = f"""
batch AS MATERIALIZED (
  SELECT l.id AS line_id, l.amount, l.currency, l.account, l.booked_on, l.reference, l.reference_hash, l.receivers_id, l.text
  FROM statements_statementline l
  WHERE l.statement_id = %(statement)s AND l.row_number > %(after)s AND l.row_number <= %(upto)s
    AND l.direction = %(direction)s AND {_CLAIMED.format(line="l.id")} IS NULL
)"""

SENT = """o.receiver_id = %(receiver)s AND o.amount_minor IS NOT NULL AND o.first_may_have_been_sent_at IS NOT NULL"""
_SENT_BY_KEY = SENT.replace(
    "o.receiver_id", "o.receiver_id + 0"
)  # so that no index of the receiver's is taken for the key's
_OPERATION = """o.id AS operation_id, o.tenant_id, o.amount_minor, o.currency AS approved_in, o.account AS sent_to,
      o.operation_key, o.receipt_id, o.record, o.state, o.first_may_have_been_sent_at AS sent_at"""
_ACCOUNTS_FIT = "(account = '' OR sent_to = '' OR account = sent_to)"
_EQUAL = f"amount = amount_minor AND currency = approved_in AND {_ACCOUNTS_FIT}"

# Counting the letters in the pattern costs ten times as much: each line's search would begin with as many states.
NAMES = "regexp_matches({text}, '[[:alnum:]_-]+', 'g') found WHERE length(found[1]) BETWEEN 12 AND 100"
"""The words of a text that are as long as keys are."""
# A key passes on to a later operation where the earlier one had no effect: the line is about the later one.
_BY_KEY = f"""
named AS MATERIALIZED (
  SELECT DISTINCT b.line_id, b.amount, b.currency, b.account, upper(found[1]) AS what,
    hashtextextended(upper(found[1]), 0) AS hash
  FROM batch b, {NAMES.format(text="concat_ws(' ', b.reference, b.receivers_id, b.text)")}
), pairs AS MATERIALIZED (
  SELECT n.line_id, n.amount, n.currency, n.account, n.what, o.* FROM named n CROSS JOIN LATERAL (
    SELECT {_OPERATION} FROM dispatch_operation o
    WHERE o.key_hash = n.hash AND upper(o.operation_key) = n.what AND {_SENT_BY_KEY}
    ORDER BY o.state = ANY(%(without_effect)s), o.id DESC LIMIT 1
  ) o
)"""
_BY_ID = f"""
named AS MATERIALIZED (
  SELECT line_id, amount, currency, account, receivers_id AS what FROM batch WHERE receivers_id <> ''
  UNION SELECT line_id, amount, currency, account, reference FROM batch WHERE reference <> ''
), pairs AS MATERIALIZED (
  SELECT DISTINCT n.line_id, n.amount, n.currency, n.account, n.what, o.* FROM named n CROSS JOIN LATERAL (
    SELECT {_OPERATION} FROM dispatch_operation o WHERE o.receipt_id = n.what AND o.receipt_id <> '' AND {SENT} LIMIT 2
  ) o
)"""
_ALONE = """
alone AS MATERIALIZED (
  SELECT * FROM (SELECT *, min(operation_id) OVER mine = max(operation_id) OVER mine AS single FROM pairs
    WINDOW mine AS (PARTITION BY line_id)) p WHERE single
)"""
# Two lines under one key: the operation was applied by either, so the first is its line, and the other stays unclaimed.
_CHOSEN = f"""
chosen AS MATERIALIZED (
  SELECT DISTINCT ON (operation_id) * FROM alone a
  WHERE {_EQUAL} AND {_HAS_LINE.format(operation="a.operation_id")} IS NULL
    AND {_TAKEN_APART.format(line="a.line_id", operation="a.operation_id")} IS NULL
  ORDER BY operation_id, line_id
)"""
_BY_REFERENCE = f"""
referring AS MATERIALIZED (
  SELECT *, statements_reference(reference) AS folded FROM batch WHERE reference_hash IS NOT NULL
), fitting AS MATERIALIZED (
  SELECT b.*, b.reference AS what, o.* FROM referring b CROSS JOIN LATERAL (
    SELECT (array_agg(to_fit.id))[1] AS id FROM (
      SELECT o.id FROM dispatch_operation o
      WHERE o.reference_hash = b.reference_hash AND statements_reference(o.record) = b.folded
        AND o.amount_minor + 0 = b.amount AND o.currency = b.currency AND {SENT}
        AND {_HAS_LINE.format(operation="o.id")} IS NULL
      LIMIT 2
    ) to_fit HAVING count(*) = 1
  ) one CROSS JOIN LATERAL (SELECT {_OPERATION} FROM dispatch_operation o WHERE o.id = one.id LIMIT 1) o
), chosen AS MATERIALIZED (
  SELECT f.* FROM fitting f JOIN access_tenant t ON t.id = f.tenant_id CROSS JOIN LATERAL (
    SELECT FROM (
      SELECT FROM statements_statementline l
      WHERE l.receiver_id = %(receiver)s AND l.reference_hash = f.reference_hash
        AND statements_reference(l.reference) = f.folded AND l.amount + 0 = f.amount AND l.currency = f.currency
        AND l.direction = %(direction)s AND {_CLAIMED.format(line="l.id")} IS NULL
        AND (SELECT s.state FROM statements_statement s WHERE s.id = l.statement_id) = 'applied'
      LIMIT 2
    ) alike HAVING count(*) = 1
  ) line
  WHERE {_ACCOUNTS_FIT} AND f.booked_on >= (f.sent_at AT TIME ZONE t.time_zone)::date - 1
    AND {_TAKEN_APART.format(line="f.line_id", operation="f.operation_id")} IS NULL
)"""
_COMPARED = """json_build_array(json_build_array('{named}', what, {value}),
      json_build_array('amount', amount::text, amount_minor::text),
      json_build_array('currency', currency, approved_in), json_build_array('account', account, sent_to))::text"""


def _made(tier: Tier, named: str, value: str) -> str:
    """Insert the chosen pairs, and what has to be taken into operations that are not confirmed."""
    return f"""
made AS (
  INSERT INTO statements_match (tenant_id, line_id, operation_id, line_place, operation_place, together, allocated, tier,
    rule_version, settings_version, compared, within_tolerance, reason, made_at)
  SELECT tenant_id, line_id, operation_id, 0, 0, '', amount_minor, {int(tier)}, %(rule_version)s, %(settings_version)s,
    {_COMPARED.format(named=named, value=value)}, false, '', %(now)s
  FROM chosen ORDER BY line_id
  ON CONFLICT DO NOTHING
  RETURNING id, tenant_id, line_id, operation_id, compared
), found AS (
  INSERT INTO statements_finding (tenant_id, line_id, operation_id, match_id, says, compared, found_at, effect)
  SELECT m.tenant_id, m.line_id, m.operation_id, m.id, 'applied', m.compared, %(now)s, ''
  FROM made m CROSS JOIN LATERAL (
    SELECT o.state FROM dispatch_operation o WHERE o.id = m.operation_id LIMIT 1) o WHERE o.state <> %(confirmed)s
)
SELECT count(*) FROM made"""


_DIFFERING = f"""
found AS (
  INSERT INTO statements_finding (tenant_id, line_id, operation_id, says, compared, found_at, effect)
  SELECT tenant_id, line_id, operation_id, 'differs', {_COMPARED.format(named="our key", value="operation_key")}, %(now)s, ''
  FROM alone a WHERE NOT ({_EQUAL}) AND {_HAS_LINE.format(operation="a.operation_id")} IS NULL
  ORDER BY line_id ON CONFLICT DO NOTHING RETURNING 1
)
SELECT count(*) FROM found"""

_STATEMENTS = {
    Rung.OUR_KEY: f"WITH {_BATCH}, {_BY_KEY}, {_ALONE}, {_CHOSEN}, {_made(Tier.OUR_KEY, 'our key', 'operation_key')}",
    Rung.RECEIVERS_ID: (
        f"WITH {_BATCH}, {_BY_ID}, {_ALONE}, {_CHOSEN}, {_made(Tier.RECEIVERS_ID, 'receiver’s id', 'receipt_id')}"
    ),
    Rung.DIFFERENCES: f"WITH {_BATCH}, {_BY_KEY}, {_ALONE}, {_DIFFERING}",
    Rung.REFERENCE: f"WITH {_BATCH}, {_BY_REFERENCE}, {_made(Tier.REFERENCE, 'reference', 'record')}",
}
