from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "outbox"

    def ready(self) -> None:
        from access import database_objects
        from outbox import database

        database_objects.register("outbox", database.statements)
