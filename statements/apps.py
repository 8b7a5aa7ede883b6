from django.apps import AppConfig


class StatementsConfig(AppConfig):
    name = "statements"

    def ready(self) -> None:
        from access import database_objects
        from statements import database, working
        from statements.matching import wiring
        from workflows import errands

        database_objects.register("statements", database.statements)
        errands.register(working.ERRAND)
        wiring.ready()
