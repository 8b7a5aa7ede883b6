from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "workflows"

    def ready(self) -> None:
        from access import database_objects
        from workflows import checks, journal_sql, providers
        from workflows.authoring import asking
        from workflows.engine import start

        database_objects.register("workflows", journal_sql.statements)
        start.connect()
        asking.answers_by_default(providers.provider)
        checks.load_prices()
