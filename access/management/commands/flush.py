"""`flush`, as the database's owner: the app's role may not empty a table. For tests and throw-away databases."""

from typing import Any

from django.core.management.commands.flush import Command as Flush
from django.db import connections

from access.owner import as_owner


class Command(Flush):
    def handle(self, **options: Any) -> None:
        with as_owner(connections[options["database"]]):
            super().handle(**options)
