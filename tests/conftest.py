"""A real PostgreSQL database for each test process, made by our own `migrate`, used as the app's role."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import psycopg
import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import DatabaseError, connection
from django.db.backends.base.base import BaseDatabaseWrapper
from hypothesis import settings as hypothesis_settings

from access.models import Person, Tenant
from access.roles import Role
from config import database
from examples.simulators.client import ProviderControl, start_provider
from tests import databases
from tests.support import make_person, make_tenant
from workflows import providers

# A busy machine is no fault of what is tested: no test here is judged by its time.
hypothesis_settings.register_profile("untimed", deadline=None)
hypothesis_settings.load_profile("untimed")

PBKDF2PasswordHasher.iterations = 1
"""Everybody's password here is public: no wrong one has to cost half a second."""


_LEFT_IN_THE_SESSION = """
SELECT (SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory')
     + (SELECT count(*) FROM pg_listening_channels())
     + (SELECT count(*) FROM pg_settings WHERE source = 'session')
     + CASE WHEN current_user = %s THEN 0 ELSE 1 END
"""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that start processes wait for most of their time: none is begun last, and seldom do several wait at once."""
    waiting = [item for item in items if item.get_closest_marker("processes") and not _shares_a_fixture(item)]
    among = set(waiting)
    items[:] = _spread(waiting, [item for item in items if item not in among])


def _shares_a_fixture(item: pytest.Item) -> bool:
    """Whether what it needs is made once for its neighbours too, so that it has to stay beside them."""
    if item.get_closest_marker("xdist_group"):
        return True
    needed = item._fixtureinfo.name2fixturedefs.values() if isinstance(item, pytest.Function) else ()
    ours = [made for fixtures in needed for made in fixtures if made.baseid]
    return any(made.scope in ("class", "module", "package") for made in ours)


def _spread(few: Sequence[pytest.Item], many: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Both in their own order: the few from the beginning on, evenly over two fifths of the many.

    The last half of them needs no database, or little else, and is done in an eighth of the time.
    """
    between = max(1, len(many) * 2 // 5 // max(1, len(few)))
    rest, order = iter(many), []
    for item in few:
        order += [item, *islice(rest, between)]
    return [*order, *rest]


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: object) -> Iterator[None]:
    """Replaces pytest-django's: a migrated database of this test process's own, dropped at the end."""
    name = f"counterfoil_test_{secrets.token_hex(5)}"
    with django_db_blocker.unblock():  # type: ignore[attr-defined]
        url = databases.make_copy(name)
        with (
            databases.used_by_this_process(name, url),
            psycopg.connect(url, autocommit=True) as owner,
            pytest.MonkeyPatch.context() as patch,
        ):
            patch.setattr("django.test.TransactionTestCase._fixture_teardown", lambda _: _empty(owner))
            patch.setattr("django.test.TransactionTestCase._should_reload_connections", lambda _: False)
            _spare_the_garbage_collector()
            yield
    database.drop_database(name)


def _empty(owner: psycopg.Connection[tuple[object]]) -> None:
    """Delete what the test wrote. Its session is kept for the next, as a new one has to learn all tables anew."""
    if connection.connection is not None and not _as_new(connection):
        connection.close()
    databases.empty(owner)


def _as_new(session: BaseDatabaseWrapper) -> bool:
    """Whether another test may go on with it: alive, in no transaction (whose locks we would wait for), nothing held or set."""
    if session.in_atomic_block or session.needs_rollback or not session.get_autocommit():
        return False
    try:
        with session.cursor() as cursor:
            cursor.execute(_LEFT_IN_THE_SESSION, [session.settings_dict["OPTIONS"]["assume_role"]])
            return cursor.fetchone() == (0,)
    except DatabaseError:
        return False


def _spare_the_garbage_collector() -> None:
    """What is loaded by now stays, and need not be searched through again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


@pytest.fixture(scope="session")
def provider_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a provider process that all tests of this process ask."""
    with start_provider(database=tmp_path_factory.mktemp("provider") / "provider.sqlite3") as running:
        yield running.base_url


@pytest.fixture
def provider(
    provider_address: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ProviderControl]:
    """The provider that this process asks: not called yet, and with half a second for an answer."""
    settings.COUNTERFOIL_PROVIDER_URL = provider_address
    monkeypatch.setenv("COUNTERFOIL_PROVIDER_TIMEOUT", "0.5")
    providers._client.cache_clear()
    control = ProviderControl(provider_address)
    control.clear_calls()
    yield control
    control.clear_script()
    providers._client.cache_clear()


@pytest.fixture
def tenant(transactional_db: None) -> Tenant:
    return make_tenant()


@pytest.fixture
def submitter(tenant: Tenant) -> Person:
    return make_person(tenant, Role.SUBMITTER)


@pytest.fixture
def operator(tenant: Tenant) -> Person:
    return make_person(tenant, Role.OPERATOR)


@pytest.fixture
def admin(tenant: Tenant) -> Person:
    return make_person(tenant, Role.ADMIN)
