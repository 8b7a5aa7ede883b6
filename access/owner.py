"""Acting as the database's owner: only `migrate` and the tests' clean-up do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db.backends.base.base import BaseDatabaseWrapper


@contextmanager
def as_owner(connection: BaseDatabaseWrapper) -> Iterator[None]:
    """The connection with its login role's rights instead of the app's; takes the app's role again after."""
    options = connection.settings_dict["OPTIONS"]
    role = options.pop("assume_role", None)
    connection.close()
    try:
        yield
    finally:
        connection.close()
        if role is not None:
            options["assume_role"] = role
