"""A real PostgreSQL database for each test process, made through our own `migrate`, used as the app's role."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from graphlib import TopologicalSorter
from typing import Any

import psycopg
import pytest
from hypothesis import settings as hypothesis_settings

# A busy machine is no fault of what is tested: no test here is judged by its time.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: object) -> Iterator[None]:
    """Replaces pytest-django's: creates, migrates and drops a database of this test process's own."""
    from django.core.management import call_command
    from django.db import connections

    from config import database

    name = f"counterfoil_test_{secrets.token_hex(5)}"
    url = database.create_database(name)
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        connection = connections["default"]
        connection.close()
        connection.settings_dict["NAME"] = name
        os.environ["DATABASE_URL"], before = url, os.environ.get("DATABASE_URL")
        call_command("migrate", verbosity=0)
        _prepare_emptying(url)
        emptying = _Emptying(url)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("django.test.TransactionTestCase._fixture_teardown", lambda case: emptying(case))
            yield
        emptying.close()
        connections.close_all()
    if before is None:
        del os.environ["DATABASE_URL"]
    else:
        os.environ["DATABASE_URL"] = before
    database.drop_database(name)


def _prepare_emptying(url: str) -> None:
    """Let this database's owner, and nobody else, delete append-only rows between tests; TRUNCATE takes a second."""
    with psycopg.connect(url, autocommit=True) as owner:
        (source,) = owner.execute(
            "SELECT pg_get_functiondef('counterfoil_refuse_change'::regproc)"
        ).fetchone() or ("",)
        emptying = (
            "BEGIN IF TG_OP = 'DELETE' AND current_setting('counterfoil_tests.emptying', true) = 'on'"
            " AND current_user = session_user THEN RETURN OLD; END IF;"
        )
        owner.execute(source.replace("BEGIN", emptying, 1))


class _Emptying:
    """Deletes every row between tests, referring tables first, over one connection of the database's owner."""

    def __init__(self, url: str) -> None:
        self._owner = psycopg.connect(url, autocommit=True)
        self._owner.execute("SET counterfoil_tests.emptying = 'on'")
        self._statements = "; ".join(f"DELETE FROM {table}" for table in self._tables())

    def __call__(self, _case: object) -> None:
        from django.db import connection

        if connection.in_atomic_block or connection.needs_rollback:
            connection.close()  # a test left it in the middle of something, whose locks we would wait for
        self._owner.execute(self._statements)  # type: ignore[call-overload]

    def close(self) -> None:
        self._owner.close()

    def _tables(self) -> list[str]:
        from django.apps import apps

        tables = [m._meta.db_table for m in apps.get_models(include_auto_created=True) if m._meta.managed]
        rows = self._owner.execute(
            "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint"
            " WHERE contype = 'f' AND conrelid <> confrelid"
        ).fetchall()
        return _referring_first(tables, rows)


def _referring_first(tables: list[str], references: list[Any]) -> list[str]:
    graph = TopologicalSorter({t: set() for t in tables})
    for referring, referred in references:
        if referring in tables and referred in tables:
            graph.add(referred, referring)
    return list(graph.static_order())
