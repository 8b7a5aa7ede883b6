from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "workflows"

    def ready(self) -> None:
        from access import database_objects
        from workflows import journal_sql
        from workflows.engine import start

        database_objects.register("workflows", journal_sql.statements)
        start.connect()
