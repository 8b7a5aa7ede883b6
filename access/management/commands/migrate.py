"""`migrate`, as the database's owner, with roles before and functions, policies and grants after."""

from typing import Any

from django.core.management.commands.migrate import Command as Migrate
from django.db import connections, transaction

from access import database_objects, noticing
from access.owner import as_owner


class Command(Migrate):
    help = "Bring the database up to date: roles, tables, then functions, triggers, policies and grants."

    def handle(self, *args: Any, **options: Any) -> None:
        connection = connections[options["database"]]
        with as_owner(connection):
            with connection.cursor() as cursor:
                cursor.execute(database_objects.ROLES_SQL)
            super().handle(*args, **options)
            if options.get("app_label"):
                return
            with transaction.atomic(using=options["database"]):
                changed = database_objects.apply(connection)
            if changed and options["verbosity"]:
                self.stdout.write("Functions, policies and grants are up to date.")
        if noticing.look() and options["verbosity"]:
            self.stdout.write("These rows were put back from a backup: dispatch is shut (docs/restore.md).")
