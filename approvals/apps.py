from django.apps import AppConfig


class ApprovalsConfig(AppConfig):
    name = "approvals"

    def ready(self) -> None:
        from access import database_objects
        from approvals import database, freezing, notifying, replaying, waiting
        from approvals.actions.expire import expire
        from workflows import hooks, machines
        from workflows.replaying import comparing
        from workflows.states import ENDED

        database_objects.register("approvals", database.statements)
        comparing.compares("proposals", replaying.compare)
        hooks.freezes_proposals(freezing.freeze)
        for state in ENDED:
            hooks.on_state(state, waiting.void_open_proposal)
        hooks.explains_waiting(50, waiting.why_it_waits)
        notifying.declare()
        hooks.on_event("approval.asked", notifying.asked)
        for event in notifying.DECIDED:
            hooks.on_event(event, notifying.decided)
        machines.register(freezing.EXPIRE_MACHINE, expire)
