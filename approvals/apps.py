from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from access import database_objects
        from access.actions.groups import needs_groups
        from approvals import database, freezing, looking, naming, notifying, replaying, schedule, waiting
        from approvals.actions.expire import expire
        from approvals.actions.notify import notify
        from workflows import errands, hooks, machines
        from workflows.replaying import comparing
        from workflows.states import ENDED, JobState

        database_objects.register("approvals", database.statements)
        comparing.compares("proposals", replaying.compare)
        hooks.freezes_proposals(freezing.freeze)
        for state in ENDED:
            hooks.on_state(state, waiting.void_open_proposal)
        for state in (JobState.FAILED, JobState.CANCELLED):
            hooks.on_state(state, waiting.give_back)
        hooks.on_event("outcome.contradicted", waiting.applied_after_all)
        hooks.on_event("operation.reopened", waiting.may_be_applied_after_all)
        hooks.explains_waiting(50, waiting.why_it_waits)
        needs_groups(naming.needs_group)
        notifying.declare()
        for event in notifying.DECIDED:
            hooks.on_event(event, notifying.decided)
        machines.register(freezing.EXPIRE_MACHINE, expire, keeps_time=True)
        machines.register(schedule.MACHINE, notify, keeps_time=True)
        errands.register(looking.ERRAND)
