"""Writing what a batch of rows came to, set by set, and finding which of its lines are known. In the caller's transaction.

A line that comes again under another statement of its account is not written twice: the n-th of equal lines in a file is
the n-th of equal lines that are kept. So two equal rows of one file are two lines, and the next file that has both brings
neither. Row level security does not let COPY in, so rows go in as arrays.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from access.prepared import execute
from statements.batches import Batch
from statements.models import Statement

_LINE = {
    "row_number": "int", "booked_on": "date", "value_on": "date", "amount": "bigint", "currency": "text",
    "direction": "text", "receivers_id": "text", "reference": "text", "text": "text", "counterparty": "text",
    "counterparty_account": "text", "fingerprint": "bytea", "occurrence": "int", "raw": "text",
}  # fmt: skip
_ERROR = {"row_number": "int", '"column"': "text", "was_read": "text", "problem": "text"}
_REPEAT = {"row_number": "int", "earlier_id": "bigint"}

_SAME = {
    "tenant_id": "bigint",
    "statement_id": "bigint",
    "receiver_id": "bigint",
    "account": "text",
    "verdict": "text",
}
_BETWEEN = "\x1f"
# A plan is kept, and may be made while the table is empty, when every index looks as good. The order is that of the
# constraint `one_line_a_fingerprint`, and with nothing else ruled in, each mark is looked up there; OFFSET 0 keeps the server
# from comparing every mark with every line of the account.
BY_INDEX = """
SELECT set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('enable_sort', 'off', true)
"""
KEPT = """
SELECT m.mark, l.occurrence, l.id, l.statement_id = %s FROM unnest(%s::text::bytea[]) AS m (mark) CROSS JOIN LATERAL (
  SELECT id, occurrence, statement_id FROM statements_statementline
  WHERE receiver_id = %s AND account = %s AND fingerprint = m.mark
  ORDER BY receiver_id, account, fingerprint, occurrence OFFSET 0) l
"""
_REPEATED = """
SELECT l.fingerprint, count(*) FROM unnest(%s::text::bigint[]) AS e (id) CROSS JOIN LATERAL (
  SELECT id FROM statements_repeatedrow WHERE statement_id = %s AND earlier_id = e.id AND verdict = 'equal' OFFSET 0) r
CROSS JOIN LATERAL (SELECT fingerprint FROM statements_statementline WHERE id = e.id OFFSET 0) l GROUP BY 1
"""


def write(statement: Statement, batch: Batch) -> tuple[int, int]:
    """Write a batch of the locked statement; how many lines are new, and how many are known."""
    new, known = _told_apart(statement, batch)
    ours = {"tenant_id": statement.tenant_id, "statement_id": statement.pk}
    _insert(
        "statementline",
        {**ours, "receiver_id": statement.receiver_id, "account": statement.account},
        _LINE,
        new,
    )
    _insert("repeatedrow", {**ours, "verdict": "equal"}, _REPEAT, known)
    problems = [(number, p.column[:200], p.was_read[:500], p.sentence[:500]) for number, p in batch.problems]
    _insert("rowerror", ours, _ERROR, problems)
    return len(new), len(known)


def _told_apart(statement: Statement, batch: Batch) -> tuple[list[tuple[Any, ...]], list[tuple[int, int]]]:
    marks = [line.fingerprint() for _, line, _ in batch.lines]
    applied, seen = _kept(statement, list(set(marks)))
    new: list[tuple[Any, ...]] = []
    known: list[tuple[int, int]] = []
    for mark, (number, line, raw) in zip(marks, batch.lines, strict=True):
        seen[mark] += 1
        earlier = applied.get((mark, seen[mark]))
        if earlier is not None:
            known.append((number, earlier))
        else:
            new.append((number, *line, mark, seen[mark], raw))
    return new, known


def _kept(
    statement: Statement, marks: list[bytes]
) -> tuple[dict[tuple[bytes, int], int], defaultdict[bytes, int]]:
    """Applied lines with these fingerprints, by occurrence; and how many rows of this file have had each."""
    applied: dict[tuple[bytes, int], int] = {}
    seen: defaultdict[bytes, int] = defaultdict(int)
    if not marks:
        return applied, seen
    execute(BY_INDEX, [])
    kept = execute(KEPT, [statement.pk, _array("bytea", marks), statement.receiver_id, statement.account])
    for mark, occurrence, line_id, ours in kept.fetchall():
        if ours:
            seen[bytes(mark)] += 1
        else:
            applied[bytes(mark), occurrence] = line_id
    if applied:
        for mark, count in execute(
            _REPEATED, [_array("bigint", list(applied.values())), statement.pk]
        ).fetchall():
            seen[bytes(mark)] += count
    return applied, seen


def _insert(
    table: str, same: dict[str, Any], columns: dict[str, str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows as one array a column; `same` is what all of them have."""
    if not rows:
        return
    names = ", ".join([*same, *columns])
    arrays = ", ".join(f"%s::text::{kind}[]" for kind in columns.values())
    execute(
        f"INSERT INTO statements_{table} ({names})"
        f" SELECT {', '.join(f'%s::{_SAME[name]}' for name in same)}, u.* FROM unnest({arrays}) AS u",
        [
            *same.values(),
            *(_array(kind, column) for kind, column in zip(columns.values(), zip(*rows, strict=True), strict=True)),
        ],
    )  # fmt: skip


def _array(kind: str, values: Sequence[Any]) -> str:
    """PostgreSQL's own spelling of an array. The driver writes one element after the other, which costs as much as reading."""
    if kind == "text":
        joined = _BETWEEN.join(values)
        if joined.count(_BETWEEN) == len(values) - 1:
            return '{"' + _escaped(joined).replace(_BETWEEN, '","') + '"}'
        return "{" + ",".join(f'"{_escaped(value)}"' for value in values) + "}"
    if kind == "bytea":
        return '{"\\\\x' + '","\\\\x'.join(value.hex() for value in values) + '"}'
    return "{" + ",".join("NULL" if value is None else str(value) for value in values) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
