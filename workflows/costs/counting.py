"""Counting attempts into sums: each exactly once, whatever crashes, in the order of their ids.

Ids become visible out of order: an attempt with a smaller id may be committed after one with a greater. So the
greatest id that is seen is a mark only. Whoever may hold a smaller one held a lock on the table when the mark was
seen; when all of those have ended, everything up to the mark is there to be seen, or never will be, and is counted.
The sums and how far they go are written in one transaction, the book's one row locked.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workflows.costs import sql
from workflows.engine.connections import Connection, connect

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)
EVERY_SECONDS = 5.0
CHUNK = 20_000
LOOK_SECONDS = 0.02
PATIENCE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Mark:
    """Attempts up to `upto` are complete once none of `writers` is at work any more."""

    upto: int
    writers: frozenset[str]


class Bookkeeper:
    """One thread of each engine; the book's lock lets one of them count at a time."""

    def __init__(self, stopping: Callable[[], bool], wait: Callable[[float], object]) -> None:
        self._stopping = stopping
        self._wait = wait
        self._mark: Mark | None = None

    def run(self) -> None:
        """Until the engine stops. Nothing is lost by stopping or dying anywhere."""
        connection: Connection | None = None
        while not self._stopping():
            try:
                if connection is None or connection.closed:
                    connection = connect("bookkeeper")
                self.turn(connection)
            except Exception as error:  # whatever it is, the engine goes on, and the next turn tries again
                log.warning("costs could not be counted now: %s", " ".join(str(error).split())[:200])
                if connection is not None:
                    connection.close()
            self._wait(EVERY_SECONDS)
        if connection is not None:
            connection.close()

    def turn(self, connection: Connection) -> None:
        """Count what can be counted by now."""
        connection.execute(sql.OPEN_BOOK)
        if self._mark is None:
            self._mark = _set_mark(connection)
        if self._is_complete(connection, self._mark):
            mark, self._mark = self._mark, None
            while not self._stopping() and _count_chunk(connection, mark.upto):
                pass
        while not self._stopping() and _review(connection):
            pass

    def _is_complete(self, connection: Connection, mark: Mark) -> bool:
        until = time.monotonic() + PATIENCE_SECONDS
        while not mark.writers.isdisjoint(_writers(connection)):
            if self._stopping() or time.monotonic() > until:
                return False
            self._wait(LOOK_SECONDS)
        return True


def count_all(connection: Connection) -> None:
    """Everything that is committed now, as far as no open transaction may add something before it."""
    Bookkeeper(stopping=lambda: False, wait=time.sleep).turn(connection)


def _set_mark(connection: Connection) -> Mark:
    """In this order: whoever takes a smaller id from now on would take it after the greatest that is seen."""
    row = connection.execute(sql.LAST_ATTEMPT).fetchone()
    return Mark(upto=row[0] if row else 0, writers=_writers(connection))


def _writers(connection: Connection) -> frozenset[str]:
    return frozenset(row[0] for row in connection.execute(sql.WRITERS).fetchall())


def _count_chunk(connection: Connection, upto: int) -> bool:
    """Whether there is more up to there, and it is ours to count."""
    with connection.transaction():
        row = connection.execute(sql.TAKE_BOOK).fetchone()
        if row is None or row[0] >= upto:
            return False
        end = min(row[0] + CHUNK, upto)
        connection.execute(sql.COUNT, {"counted": row[0], "upto": end})
        connection.execute(sql.WRITE_BOOK, [end])
        return bool(end < upto)


def _review(connection: Connection) -> bool:
    """Move the results of jobs that were refused, or are not any more. Whether there was something to do."""
    with connection.transaction():
        if connection.execute(sql.TAKE_BOOK).fetchone() is None:
            return False
        row = connection.execute(sql.REVIEW).fetchone()
        return row is not None and row[0] > 0
