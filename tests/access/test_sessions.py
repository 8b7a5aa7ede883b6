"""A worker's session that was idle is used again without a question to the server, unless the server ended it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import close_old_connections, connection

from access.sessions import trust_quiet_session

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def owner(transactional_db: None) -> Iterator[psycopg.Connection[Any]]:
    connection.close()
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        yield owner
    connection.close()


def work() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 'work'")


def begin() -> None:
    """As a thread begins its next piece: what Django asks, it asks here."""
    close_old_connections()
    trust_quiet_session()
    connection.close_if_health_check_failed()


def last_asked(owner: psycopg.Connection[Any]) -> str:
    session = connection.connection.info.backend_pid
    row = owner.execute("SELECT query FROM pg_stat_activity WHERE pid = %s", [session]).fetchone()
    assert row is not None
    return str(row[0])


def test_a_session_that_lives_is_not_asked_whether_it_does(owner: psycopg.Connection[Any]) -> None:
    work()
    close_old_connections()
    connection.close_if_health_check_failed()
    assert last_asked(owner) == "SELECT 1"
    work()
    begin()
    assert last_asked(owner) == "SELECT 'work'"


def test_a_session_that_the_server_ended_is_replaced_before_the_work(owner: psycopg.Connection[Any]) -> None:
    work()
    ended = connection.connection
    owner.execute("SELECT pg_terminate_backend(%s, 5000)", [ended.info.backend_pid])
    begin()
    work()
    assert connection.connection is not ended
    assert ended.closed
