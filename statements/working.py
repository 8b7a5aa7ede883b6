"""Reading a statement: batch after batch, each one transaction that also says how far it has come.

A worker that dies leaves the batches that are committed, and the next turn goes on behind them. Whoever does a turn holds
the statement for a while so that two do not do the same; that nothing is written twice does not depend on it, but on the
row that is locked and compared with where the batch began.
"""

from __future__ import annotations

import time
from datetime import date

from django.db import connection
from django.utils import timezone

from access.roles import WORKER
from access.tenancy import acting, reading
from access.tenant_journal import record
from statements import camt, keeping, mt940, writing
from statements.batches import Batch
from statements.locks import lock_statement
from statements.models import Format, Statement, StatementState
from statements.reading import NoHeader, Reader, find_columns
from statements.terms import Terms
from workflows.errands import Errand

HELD_SECONDS = 15
BATCH_BYTES = 1_000_000
BATCH_ROWS = 10_000
BATCH_SECONDS = 2.0
"""Rows that are hard to read are not many to a turn: others wait for the thread that does it."""
MOST_IN_ALL = 10**18
"""Smallest units that the lines of one statement can add up to."""
SWEPT_AT_ONCE = 20_000

_TAKE = """
UPDATE statements_statement SET worked_by = %s, worked_until = clock_timestamp() + %s * interval '1 s'
WHERE id = %s AND (state = 'reading' OR state = 'discarded' AND swept_at IS NULL)
  AND (worked_by = %s OR worked_until IS NULL OR worked_until < clock_timestamp())
"""
FIND = """
SELECT tenant_id, id FROM statements_statement
WHERE (state = 'reading' OR state = 'discarded' AND swept_at IS NULL)
  AND (worked_until IS NULL OR worked_until < clock_timestamp()) ORDER BY id LIMIT 20
"""
_SWEEP = (
    "DELETE FROM statements_repeatedrow WHERE id IN (SELECT id FROM statements_repeatedrow WHERE statement_id = %s LIMIT %s)",
    "DELETE FROM statements_rowerror WHERE id IN (SELECT id FROM statements_rowerror WHERE statement_id = %s LIMIT %s)",
    "DELETE FROM statements_statementline"
    " WHERE id IN (SELECT id FROM statements_statementline WHERE statement_id = %s LIMIT %s)",
)
# The k-th new line of a day, an amount and a direction against the k-th earlier one that this file has not brought again.
_DOUBTS = """
WITH fresh AS (
  SELECT id, row_number, booked_on, amount, currency, direction, row_number() OVER (
    PARTITION BY booked_on, amount, currency, direction ORDER BY row_number) AS nth
  FROM statements_statementline WHERE statement_id = %(statement)s
), earlier AS (
  SELECT l.id, l.booked_on, l.amount, l.currency, l.direction, row_number() OVER (
    PARTITION BY l.booked_on, l.amount, l.currency, l.direction ORDER BY l.id) AS nth
  FROM statements_statement s JOIN statements_statementline l ON l.statement_id = s.id
  WHERE s.receiver_id = %(receiver)s AND s.account = %(account)s AND s.state = 'applied'
    AND s.first_booked_on <= %(last)s AND s.last_booked_on >= %(first)s AND l.booked_on BETWEEN %(first)s AND %(last)s
    AND NOT EXISTS (SELECT FROM statements_repeatedrow r WHERE r.statement_id = %(statement)s AND r.earlier_id = l.id)
)
INSERT INTO statements_repeatedrow (tenant_id, statement_id, row_number, earlier_id, line_id, verdict)
SELECT %(tenant)s, %(statement)s, f.row_number, e.id, f.id, 'asked'
FROM fresh f JOIN earlier e USING (booked_on, amount, currency, direction, nth)
"""


def turn(tenant_id: int, statement_id: int, worker: str) -> bool:
    """Do one batch of what a statement has waiting; whether there is more. Nothing where another is at it."""
    with acting(tenant_id), connection.cursor() as cursor:
        cursor.execute(_TAKE, [worker, HELD_SECONDS, statement_id, worker])
        if cursor.rowcount == 0:
            return False
    with reading(tenant_id):
        statement = Statement.objects.select_related("mapping").get(pk=statement_id)
    if statement.swept_at is None:
        return _sweep(statement)
    if statement.state != StatementState.READING:
        return False
    if statement.position >= statement.size:
        return _finish(statement)
    return _commit(statement, _batch(statement))


def _batch(statement: Statement) -> Batch:
    """The next rows, read outside of any transaction."""
    if statement.format != Format.CSV:
        return _whole(statement)
    assert statement.mapping is not None
    terms = Terms.model_validate(statement.mapping.terms)
    try:
        columns = find_columns(keeping.rows_from(statement, terms, 0, 1), terms)
    except NoHeader as missing:
        batch = Batch(end=statement.size)
        batch.refuse(str(missing))
        return batch
    encoding = keeping.encoding_of(statement, terms)
    reader = Reader(terms, columns, account=statement.account, encoding=encoding)
    batch = Batch(end=statement.position)
    line, until = statement.rows + 1, time.monotonic() + BATCH_SECONDS
    for row in keeping.rows_from(statement, terms, statement.position, line):
        batch.end, batch.rows = row.end, batch.rows + row.lines
        batch.add(row.number, reader.read(row), row.text)
        if batch.rows >= BATCH_ROWS or batch.end - statement.position >= BATCH_BYTES:
            break
        if time.monotonic() >= until:
            break
    return batch


def _whole(statement: Statement) -> Batch:
    """All of a file of another format, which is small enough for one batch (`actions/uploading.py` sees to it)."""
    content = b"".join(keeping.content_of(statement))
    if statement.format == Format.CAMT053:
        batch = camt.read(content, account=statement.account)
    else:
        batch = mt940.read(content, encoding=statement.encoding or "windows-1252", account=statement.account)
    batch.end = statement.size
    return batch


def _commit(seen: Statement, batch: Batch) -> bool:
    """Write a batch and how far it came, unless the statement has moved on meanwhile."""
    with acting(seen.tenant_id):
        statement = lock_statement(seen.pk)
        if not _same(statement, seen):
            return False
        totals = _totals(statement, batch)
        new, known = writing.write(statement, batch)
        Statement.objects.filter(pk=seen.pk).update(
            position=batch.end,
            rows=statement.rows + batch.rows,
            lines=statement.lines + new,
            repeated=statement.repeated + known,
            errors=statement.errors + batch.wrong_rows,
            left_out=statement.left_out + batch.left_out,
            opening=batch.opening,
            closing=batch.closing,
            **totals,
        )
    return True


def _totals(statement: Statement, batch: Batch) -> dict[str, int | str | date | None]:
    """The days and sums of all lines so far, those that are known included. Sums of several currencies are none.

    What is more than can be added up is wrong with the batch.
    """
    lines = [line for _, line, _ in batch.lines]
    if not lines:
        return {}
    days = [line.booked_on for line in lines]
    before = [statement.first_booked_on or days[0], statement.last_booked_on or days[0]]
    currencies = {line.currency for line in lines}
    if statement.lines + statement.repeated:
        currencies.add(statement.currency)
    one = currencies.pop() if len(currencies) == 1 else ""
    sums = {"in": statement.amount_in, "out": statement.amount_out}
    for line in lines:
        sums[line.direction] += line.amount
    if one and max(sums.values()) > MOST_IN_ALL:
        batch.refuse("Its amounts add up to more than is kept: is another column mapped as the amount?")
        sums = {way: min(sums[way], MOST_IN_ALL) for way in sums}
    return {
        "first_booked_on": min(before[0], *days),
        "last_booked_on": max(before[1], *days),
        "currency": one,
        "amount_in": sums["in"] if one else 0,
        "amount_out": sums["out"] if one else 0,
    }


def _finish(seen: Statement) -> bool:
    """All of it is read: ask about rows that may be known under other words. Always False: a person goes on."""
    with acting(seen.tenant_id):
        statement = lock_statement(seen.pk)
        if not _same(statement, seen):
            return False
        if statement.lines and _overlaps(statement):
            _ask(statement)
        Statement.objects.filter(pk=seen.pk).update(
            state=StatementState.READ, read_at=timezone.now(), worked_until=None
        )
        evidence = {
            "statement": statement.pk,
            "reading": statement.reading,
            "lines": statement.lines,
            "repeated": statement.repeated,
            "errors": statement.errors,
        }
        record(event="statement.read", actor=WORKER, evidence=evidence)
    return False


def _overlaps(statement: Statement) -> bool:
    """Whether an applied statement of the account has days of this one."""
    applied = Statement.objects.filter(
        receiver_id=statement.receiver_id, account=statement.account, state=StatementState.APPLIED
    )
    days = {
        "first_booked_on__lte": statement.last_booked_on,
        "last_booked_on__gte": statement.first_booked_on,
    }
    return applied.filter(**days).exists()


def _ask(statement: Statement) -> None:
    """Write down which new lines may be earlier ones in other words."""
    with connection.cursor() as cursor:
        # Nobody has counted the lines that were just written: a loop inside a loop over them would not end.
        cursor.execute("SELECT set_config('enable_nestloop', 'off', true)")
        cursor.execute(
            _DOUBTS,
            {
                "tenant": statement.tenant_id,
                "statement": statement.pk,
                "receiver": statement.receiver_id,
                "account": statement.account,
                "first": statement.first_booked_on,
                "last": statement.last_booked_on,
            },
        )


def _sweep(seen: Statement) -> bool:
    """Delete some of what an earlier reading has left."""
    with acting(seen.tenant_id):
        statement = lock_statement(seen.pk)
        if statement.swept_at is not None:
            return False
        with connection.cursor() as cursor:
            for statement_sql in _SWEEP:
                cursor.execute(statement_sql, [statement.pk, SWEPT_AT_ONCE])
                if cursor.rowcount:
                    return True
        Statement.objects.filter(pk=seen.pk).update(swept_at=timezone.now(), worked_until=None)
    return statement.state == StatementState.READING


def _same(statement: Statement, seen: Statement) -> bool:
    return (statement.state, statement.reading, statement.position, statement.swept_at is None) == (
        StatementState.READING, seen.reading, seen.position, False,
    )  # fmt: skip


ERRAND = Errand("statement", FIND, turn)
