"""A real PostgreSQL database for each test process, made by our own `migrate`, used as the app's role."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import settings as hypothesis_settings

# A busy machine is no fault of what is tested: no test here is judged by its time.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: object) -> Iterator[None]:
    """Replaces pytest-django's: a migrated database of this test process's own, dropped at the end."""
    from config import database
    from tests import databases

    name = f"counterfoil_test_{secrets.token_hex(5)}"
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        url = databases.make_copy(name)
        with (
            databases.used_by_this_process(name, url),
            psycopg.connect(url, autocommit=True) as owner,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr("django.test.TransactionTestCase._fixture_teardown", lambda _: _empty(owner))
            yield
    database.drop_database(name)


def _empty(owner: psycopg.Connection[tuple[object]]) -> None:
    from django.db import connection

    from tests import databases

    if connection.in_atomic_block or connection.needs_rollback:
        connection.close()  # a test left it in the middle of something, whose locks we would wait for
    databases.empty(owner)
