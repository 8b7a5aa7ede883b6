from django.apps import AppConfig


class DispatchConfig(AppConfig):
    name = "dispatch"

    def ready(self) -> None:
        from access import database_objects, noticing
        from approvals import aftermath, freezing
        from approvals import rendering as approvals_rendering
        from dispatch import (
            after_restore,
            earlier,
            earlier_keys,
            permits,
            queries,
            redriving,
            rendering,
            replaying,
            restoring,
            reversals,
            secrets_sql,
            sending,
            state_sql,
            twins,
            waiting,
            writing,
        )
        from dispatch.actions import prepare
        from dispatch.callbacks import receiving
        from workflows import hooks, machines
        from workflows.replaying import comparing
        from workflows.states import JobState

        comparing.compares("sends", replaying.compare)
        database_objects.register("dispatch", state_sql.statements)
        database_objects.register("dispatch.secrets", secrets_sql.statements)
        database_objects.register("dispatch.callbacks", receiving.statements)
        approvals_rendering.renders_operations(rendering.render_operation)
        aftermath.tells_what_was_sent(writing.what_was_sent)
        aftermath.tells_earlier_ends(earlier.earlier_ends)
        aftermath.tells_twins(twins.twins_of)
        machines.register(sending.MACHINE, sending.run)
        hooks.on_state(JobState.READY_TO_COMMIT, prepare.prepare_operations)
        for state in (JobState.VALIDATED, JobState.CANCELLED, JobState.FAILED):
            hooks.on_state(state, prepare.withdraw_operations)
        freezing.asks_for_two(after_restore.why_two)
        freezing.asks_for_two(earlier_keys.why_two)
        hooks.objects_to_redrive(redriving.why_not)
        hooks.objects_to_redrive(reversals.why_not_send)
        permits.objects_to_sending(reversals.why_not_send)
        freezing.keeps_keys(earlier_keys.keep_keys)
        freezing.objects_to_drafts(reversals.why_not_draft)
        hooks.objects_to_migration(redriving.why_not_migrate)
        hooks.on_event("cancel.requested", prepare.stop_what_can_be)
        hooks.knows_effects(queries.effect_stands)
        noticing.when_copied(restoring.take_note)
        hooks.explains_waiting(40, waiting.why_it_waits)
