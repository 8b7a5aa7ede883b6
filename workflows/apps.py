from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "workflows"

    def ready(self) -> None:
        from access import database_objects
        from workflows import checks, journal_sql  # noqa: F401 - importing registers the checks
        from workflows.engine import start

        database_objects.register("workflows", journal_sql.statements)
        start.connect()
