"""What stands between the engine and code of others: their calls, and the database sessions that they leave behind.

What a handler does to the database's sessions of its thread ends with it. A session that it used is thrown away, since
it may have set anything in it (a role, a search path, a tenant); so is one that it left inside of a transaction, which
would hold locks, and which the next item would join.
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from django.db import close_old_connections, connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from access.outages import is_outage

if TYPE_CHECKING:
    from workflows.engine.slots import Pinned

T = TypeVar("T")
log = logging.getLogger(__name__)
PATIENCE_SECONDS = 60.0


class NoDatabase(Exception):
    """What an item works on could not be read: it has not begun, so nothing is counted."""


def call(handler: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call code of others; that it used the database's session is noted for `tidy`."""
    with connection.execute_wrapper(_note):
        return handler(*args, **kwargs)


def patiently(read: Callable[[], T]) -> T:
    """What `read` reads, also when the database is away for a while. Raises NoDatabase when it stays away."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return read()
        except Exception as error:
            if not is_outage(error):
                raise
            close_old_connections()
            if time.monotonic() > until:
                raise NoDatabase(
                    f"The database could not be read: {' '.join(str(error).split())[:200]}"
                ) from error
        time.sleep(moment())


def database_answers() -> bool:
    """Whether our own database serves this thread now; another's outage is not ours."""
    close_old_connections()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except Exception as error:
        if not is_outage(error):
            raise
        return False
    return True


def moment() -> float:
    """Seconds until somebody whom an outage stopped looks again; not everybody in the same instant."""
    return random.SystemRandom().uniform(0.1, 1.0)


def tidy(pinned: Pinned) -> None:
    """After each claim: the thread's sessions are as they were before it."""
    tidy_after(f"step {pinned.claim.stage_name} of {pinned.workflow or 'the machine'}")


def tidy_after(whose: str) -> None:
    """After a call of others' code in the middle of a claim, whose own transactions follow."""
    for session in connections.all(initialized_only=True):
        if _is_left_open(session):
            log.warning("%s left a transaction open; what it had not committed is undone", whose)
            _throw_away(session)
        elif getattr(session, "used_by_handler", False):
            _throw_away(session)


def _note(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    context["connection"].used_by_handler = True
    return execute(sql, params, many, context)


def _is_left_open(session: BaseDatabaseWrapper) -> bool:
    raw = session.connection
    if raw is None or raw.closed:
        return False
    status = raw.info.transaction_status
    return session.in_atomic_block or not session.autocommit or status != TransactionStatus.IDLE


def _throw_away(session: BaseDatabaseWrapper) -> None:
    raw, session.connection = session.connection, None
    del connections[session.alias]  # the next one starts without this one's memory of transactions
    if raw is not None:
        raw.close()
