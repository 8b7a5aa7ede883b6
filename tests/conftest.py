"""A real PostgreSQL database for each test process, made through our own `migrate`, used as the app's role."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest

os.environ.setdefault("COUNTERFOIL_TESTING", "1")


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
        yield
        connections.close_all()
    if before is None:
        del os.environ["DATABASE_URL"]
    else:
        os.environ["DATABASE_URL"] = before
    database.drop_database(name)
