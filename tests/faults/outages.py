"""An outage of the tests' own database, for one test: no connection can be had, and those that there were are cut."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import psycopg
from django.db import connection
from psycopg import sql

Owner = psycopg.Connection[tuple[Any, ...]]
"""A session of the login role that the test keeps: it can still end the outage."""


def clock_of(owner: Owner) -> datetime:
    row = owner.execute("SELECT clock_timestamp()").fetchone()
    assert row is not None
    return row[0]  # type: ignore[no-any-return]


@contextmanager
def no_connections(owner: Owner, *, since: datetime) -> Iterator[None]:
    """Sessions that began after `since` are ended, and no new one can be had."""
    name = sql.Identifier(owner.info.dbname)
    connection.close()
    owner.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT 0").format(name))
    owner.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_start > %s",
        [since],
    )
    try:
        yield
    finally:
        owner.execute(sql.SQL("ALTER DATABASE {} CONNECTION LIMIT -1").format(name))
