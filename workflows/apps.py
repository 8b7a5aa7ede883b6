from django.apps import AppConfig


class WorkflowsConfig(AppConfig):
    name = "workflows"

    def ready(self) -> None:
        from access import database_objects
        from workflows import (
            checks,
            deadlines,
            explaining,
            files,
            health_sql,
            hooks,
            journal_sql,
            machines,
            notifying,
            providers,
            references,
        )
        from workflows.authoring import asking
        from workflows.authoring import files as authoring_files
        from workflows.compensation import beginning, machine, plan
        from workflows.costs import reviews
        from workflows.costs import sql as costs_sql
        from workflows.engine import start
        from workflows.states import JobState

        database_objects.register("workflows", journal_sql.statements)
        database_objects.register("workflows.health", health_sql.statements)
        machines.register(plan.MACHINE, machine.run)
        for state in (JobState.FAILED, JobState.CANCELLED):
            hooks.on_state(state, beginning.ended_without_confirmation)
            hooks.on_state(state, references.ended)
        hooks.on_event("compensation.finished", references.undone)
        notifying.connect()
        database_objects.register("workflows.costs", costs_sql.statements)
        reviews.connect()
        machines.register(deadlines.MACHINE, deadlines.look)
        hooks.explains_waiting(explaining.RANK_OF_LIMITS, explaining.limit_that_is_closed)
        hooks.explains_waiting(explaining.RANK, explaining.why_it_waits)
        start.connect()
        asking.answers_by_default(providers.provider)
        authoring_files.reads_by_default(files.reader_of)
        checks.load_prices()
