from django.apps import AppConfig


class StatementsConfig(AppConfig):
    name = "statements"

    def ready(self) -> None:
        from access import database_objects
        from statements import database

        database_objects.register("statements", database.statements)
