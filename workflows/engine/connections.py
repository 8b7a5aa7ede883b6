"""Plain psycopg connections for the engine's own threads: never Django's, never shared, with keepalives.

A child that a handler forks inherits the sockets of every session of the process, Django's too. As long as it held
them, the server would not see that we died: our advisory lock would not become free. So in a forked child they are
let go of, before anything else runs there and without a word to the server, which would end *our* sessions.
"""

from __future__ import annotations

import os
import weakref
from typing import Any

import psycopg
from django.db import connection as django_connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from access import statements
from workflows.engine.arrays import ArrayDumper

Connection = psycopg.Connection[tuple[Any, ...]]
ENGINE_ROLE = "counterfoil_engine"
CONNECT_SECONDS = 5
"""So long is a server waited for that neither answers nor refuses."""
CONTENTION = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)
"""Somebody else was first: the same transaction may go through when it is tried again."""
_sessions: weakref.WeakSet[psycopg.Connection[Any]] = weakref.WeakSet()
_guarded = False


def connect(purpose: str) -> Connection:
    """An autocommit connection as the engine's role, whose server notices within seconds that it is gone."""
    parameters = {
        k: v
        for k, v in django_connection.get_connection_params().items()
        if k in {"dbname", "user", "password", "host", "port", "connect_timeout"} or k.startswith("ssl")
    }
    connection: Connection = psycopg.connect(
        **{"connect_timeout": CONNECT_SECONDS, **parameters},
        autocommit=True,
        application_name=f"counterfoil {purpose}",
        keepalives=1,
        keepalives_idle=2,
        keepalives_interval=1,
        keepalives_count=3,
        tcp_user_timeout=10_000,
    )
    _sessions.add(connection)
    connection.adapters.register_dumper(list, ArrayDumper)
    connection.execute(f"SET ROLE {ENGINE_ROLE}")
    connection.execute(
        "SET tcp_keepalives_idle = 2; SET tcp_keepalives_interval = 1; SET tcp_keepalives_count = 3"
    )
    connection.execute("SET idle_in_transaction_session_timeout = '60s'")
    return connection


def plan_by_index(connection: Connection) -> Connection:
    """For a session of the committer's few statements: each is planned once, and walks indexes whatever a table holds.

    Planning the walk over lanes takes as long as walking, and PostgreSQL would do it for each batch. A plan that was made
    while a table was empty must not scan or sort it when it holds a million rows: both are ruled out.
    """
    connection.execute("SET plan_cache_mode = force_generic_plan")
    for way in ("seqscan", "bitmapscan", "sort", "hashjoin"):
        connection.execute(f"SET enable_{way} = off")
    return connection


def guard_against_forks() -> None:
    """From now on no child of this process keeps a session of it. Once a process; a repeat does nothing."""
    global _guarded
    if not _guarded:
        _guarded = True
        connection_created.connect(_remember, dispatch_uid="counterfoil-sessions")
        connection_created.connect(statements.plan_once, dispatch_uid="counterfoil-plans")
        os.register_at_fork(after_in_child=_let_go)


def _remember(connection: BaseDatabaseWrapper, **_: object) -> None:
    _sessions.add(connection.connection)


def _let_go() -> None:
    """In the child: another file takes the socket's place, so that closing it later says nothing to the server."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for session in list(_sessions):
        try:
            os.dup2(nothing, session.fileno(), inheritable=False)
        except (psycopg.Error, OSError):  # closed already
            continue
    os.close(nothing)
