"""Running a prepared statement in one call of libpq, where a cursor takes four steps of Python for each of them.

A cursor of psycopg sends, waits, collects and describes; between all of that other threads get the interpreter. What is
prepared here is kept with Django's connection for as long as its session lives. Several statements that do not wait for
each other's answers go in one exchange with the server (`ahead`, `execute_alone`): each exchange costs more than most of
what is asked in it.
"""

from __future__ import annotations

import re
import select
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import adapt, errors, pq

MOST_PREPARED = 500
"""So many statements a session keeps; there are about a hundred, some in two kinds of integers."""
_KEPT = "_counterfoil_prepared"
_GONE = b"26000"
"""There is no such prepared statement: somebody has emptied the session."""
_OUTLIVED = (b"0A000", b"RevalidateCachedQuery")
"""Its rows have other types now: a migration has run. The code alone says "not supported"; the rest is the place."""
_DONE = (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK)
Parameters = Sequence[Any] | Mapping[str, Any]
Asked = tuple[str, Parameters]
"""A statement and what goes into its places."""


class OutOfDate(psycopg.OperationalError):
    """A migration, or whoever emptied the session, came between. As after an outage, the same may be asked again."""


class Found:
    """What a statement found: so much of a cursor as its callers need."""

    __slots__ = ("_at", "_rows", "rowcount")

    def __init__(self, rows: list[tuple[Any, ...]], rowcount: int) -> None:
        self._rows, self._at, self.rowcount = rows, 0, rowcount

    def fetchone(self) -> tuple[Any, ...] | None:
        self._at += 1
        return self._rows[self._at - 1] if self._at <= len(self._rows) else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self._rows


def execute(statement: str, parameters: Parameters) -> Any:
    """Run a statement that is written out, prepared; as Django's cursor does, whose errors and wrappers hold here too."""
    mine = connections[DEFAULT_DB_ALIAS]  # the proxy `connection` looks it up at each attribute
    mine.ensure_connection()
    if _is_watched(mine):
        return _through_a_cursor(mine, statement, parameters)
    mine.validate_no_broken_transaction()
    with mine.wrap_database_errors:
        return _kept(mine).answer(statement, parameters)


@contextmanager
def ahead(*asked: Asked) -> Iterator[None]:
    """Ask all of these in one exchange, in this order; who executes one of them within the block is given its answer.

    For what is read under locks that are held already, and for locks that are taken in this order, one after the other.
    An answer is given once, and none is older than the block. Whoever wants queries logged sees them where they are used.
    """
    mine = connections[DEFAULT_DB_ALIAS]
    mine.ensure_connection()
    if _is_watched(mine):
        yield
        return
    mine.validate_no_broken_transaction()
    kept = _kept(mine)
    with mine.wrap_database_errors:
        kept.ask_ahead(asked)
    try:
        yield
    finally:
        kept.forget_answers()


def execute_alone(*asked: Asked) -> list[Any]:
    """Run statements as one transaction in one exchange: begun, done and committed at once, or not at all.

    Never inside another transaction (RuntimeError). As with any COMMIT, an answer that is lost leaves open whether it is done.
    """
    mine = connections[DEFAULT_DB_ALIAS]
    mine.ensure_connection()
    if mine.in_atomic_block or not mine.get_autocommit():
        raise RuntimeError("A transaction is open, and this is to be one of its own.")
    if _is_watched(mine):
        with transaction.atomic():
            return [_through_a_cursor(mine, *one) for one in asked]
    with mine.wrap_database_errors:
        return _kept(mine).run_all(asked)


def _is_watched(mine: BaseDatabaseWrapper) -> bool:
    return bool(mine.queries_logged or mine.execute_wrappers)


def _through_a_cursor(mine: BaseDatabaseWrapper, statement: str, parameters: Parameters) -> Any:
    # Whoever has queries logged wants to read them whole. Otherwise bound at the server, where Django's own binds here.
    session: Any = psycopg.Cursor(mine.connection)
    cursor = mine.cursor() if mine.queries_logged else mine.make_cursor(session)
    cursor.execute(statement, parameters)
    return cursor


class _Session:
    """The statements that one session has prepared."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self._seen: dict[str, tuple[Any, dict[tuple[int, ...], bytes]]] = {}
        self._count = 0
        self._full = False
        """Whether the server keeps statements that are not known here any more."""
        self._answers: dict[tuple[str, str], Found] = {}
        """What was asked ahead, by statement and parameters."""

    def answer(self, statement: str, parameters: Parameters) -> Found:
        """The answer of what was asked ahead, once; else run it."""
        if self._answers:
            found = self._answers.pop((statement, repr(parameters)), None)
            if found is not None:
                return found
        if self._begins():
            return self.run_all([(statement, parameters)])[0]
        name, values, adapted = self._ready(statement, parameters)
        return _found(
            self._checked(self.session.pgconn.exec_prepared(name, values, adapted.formats)), adapted
        )

    def ask_ahead(self, asked: Sequence[Asked]) -> None:
        self._answers = {
            (statement, repr(parameters)): found
            for (statement, parameters), found in zip(asked, self.run_all(asked), strict=True)
        }

    def forget_answers(self) -> None:
        self._answers = {}

    def run_all(self, asked: Sequence[Asked]) -> list[Found]:
        """Run all in one exchange, in this order, with the BEGIN that is due before them. The first error is raised."""
        pgconn = self.session.pgconn
        begins = self._begins()
        ready = [self._ready(*one) for one in asked]
        pgconn.enter_pipeline_mode()
        try:
            if begins:
                pgconn.send_query_params(b"BEGIN", None)
            for name, values, adapted in ready:
                pgconn.send_query_prepared(name, values, adapted.formats)
            pgconn.pipeline_sync()
            results = self._collect()
            pgconn.exit_pipeline_mode()
        except BaseException:
            # An interrupt too leaves answers in the link, which the next question would take for its own.
            self.session.close()
            raise
        for result in results:
            self._checked(result)
        return [_found(r, adapted) for r, (_, _, adapted) in zip(results[begins:], ready, strict=True)]

    def _collect(self) -> list[Any]:
        """Every result until the server has come to the end of what was sent; other threads run meanwhile."""
        pgconn = self.session.pgconn
        link = select.poll()
        link.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        while pgconn.flush():  # the server may have to get rid of answers before it takes more
            if any(ready & select.POLLIN for _, ready in link.poll()):
                pgconn.consume_input()
        link.modify(pgconn.socket, select.POLLIN)
        results: list[Any] = []
        ended = False
        while True:
            while pgconn.is_busy():
                link.poll()
                pgconn.consume_input()
            result = pgconn.get_result()
            if result is not None and result.status == pq.ExecStatus.PIPELINE_SYNC:
                return results
            if result is None and ended:
                raise psycopg.OperationalError(pgconn.get_error_message() or "the session was lost")
            ended = result is None
            if result is not None:
                results.append(result)

    def _ready(self, statement: str, parameters: Parameters) -> tuple[bytes, Any, Any]:
        """A prepared statement's name, its parameters as they are sent, and who has written them so and reads its rows."""
        text, names = _numbered(statement)
        given = parameters if names is None else [parameters[name] for name in names]  # type: ignore[call-overload]
        if statement not in self._seen:
            self._seen[statement] = (adapt.Transformer(self.session), {})
        adapted, prepared = self._seen[statement]
        values = adapted.dump_sequence(given, [adapt.PyFormat.AUTO] * len(given))
        name = prepared.get(adapted.types)
        if name is None:
            name = self._prepare(text, adapted.types)
            prepared[adapted.types] = name
        return name, values, adapted

    def _begins(self) -> bool:
        """Whether a BEGIN is due, as psycopg sends one before the first statement of a transaction."""
        session = self.session
        if session.autocommit or session.pgconn.transaction_status != pq.TransactionStatus.IDLE:
            return False
        if (session.isolation_level, session.read_only, session.deferrable) == (None, None, None):
            return True
        session.execute("SELECT")  # it knows how to say that
        return False

    def _prepare(self, text: bytes, types: tuple[int, ...]) -> bytes:
        if self._full or self._count % MOST_PREPARED == MOST_PREPARED - 1:
            self._checked(self.session.pgconn.exec_(b"DEALLOCATE ALL"))
            self._forget()
            self._full = False
        self._count += 1
        name = b"counterfoil_%d" % self._count
        self._checked(self.session.pgconn.prepare(name, text, types))
        return name

    def _forget(self) -> None:
        for _, prepared in self._seen.values():
            prepared.clear()

    def _checked(self, result: Any) -> Any:
        if result.status not in _DONE:
            raise self._error_of(result)
        return result

    def _error_of(self, result: Any) -> psycopg.Error:
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        if not state:
            # No server said this: the link broke. As a cursor says it, and what an outage is (`access/outages.py`).
            return psycopg.OperationalError(result.get_error_message(self.session.info.encoding))
        if state == _GONE or (state, result.error_field(pq.DiagnosticField.SOURCE_FUNCTION)) == _OUTLIVED:
            self._forget()
            self._full = True
            return OutOfDate(
                "What this session had prepared no longer holds; the same question may be asked again."
            )
        return errors.error_from_result(result, encoding=self.session.info.encoding)


def _found(result: Any, adapted: Any) -> Found:
    adapted.set_pgresult(result)
    rows = adapted.load_rows(0, result.ntuples, tuple) if result.nfields else []
    adapted.set_pgresult(None)
    return Found(rows, result.ntuples if result.nfields else result.command_tuples or 0)


def _kept(mine: BaseDatabaseWrapper) -> _Session:
    kept: _Session | None = mine.__dict__.get(_KEPT)
    if kept is None or kept.session is not mine.connection:
        kept = mine.__dict__[_KEPT] = _Session(mine.connection)
    return kept


_PLACE = re.compile(r"%(?:\((\w+)\))?s|%%")


@cache
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...] | None]:
    """The text as the server wants it ($1 for %s), and the names of its parameters where they have any."""
    order: list[str] = []
    count = 0

    def place(found: re.Match[str]) -> str:
        nonlocal count
        if found[0] == "%%":
            return "%"
        if found[1] is None:
            count += 1
            return f"${count}"
        if found[1] not in order:
            order.append(found[1])
        return f"${order.index(found[1]) + 1}"

    text = _PLACE.sub(place, statement).encode()
    return text, tuple(order) if order else None
