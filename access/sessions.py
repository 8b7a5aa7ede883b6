"""Whether a session that was idle still lives, asked of its socket: Django asks the server, once for each piece of work."""

from __future__ import annotations

import select
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections


def trust_quiet_session() -> None:
    """Before a thread's next piece of work: spare the server Django's `SELECT 1`, unless it has said something.

    A server that ends a session says so on its socket, and a session that is idle is told nothing else. Then Django
    asks, and connects anew.
    """
    mine: Any = connections[DEFAULT_DB_ALIAS]
    session = mine.connection
    if session is not None and not session.closed and not _has_news(session.fileno()):
        mine.health_check_done = True


def _has_news(socket: int) -> bool:
    poll = select.poll()
    poll.register(socket, select.POLLIN)
    return bool(poll.poll(0))
