from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    name = "reconciliation"

    def ready(self) -> None:
        from access import database_objects
        from dispatch import deriving, permits
        from reconciliation import (
            answering,
            budgets,
            database,
            listening,
            mismatched,
            notifying,
            old_messages,
            redriving,
            replaying,
            reviewing,
            undelivered,
            waiting,
        )
        from reconciliation.bulk import working
        from reconciliation.incidents import sweeping
        from reconciliation.unclaimed import looking_after
        from workflows import errands, hooks
        from workflows.replaying import comparing
        from workflows.states import ENDED, JobState

        notifying.declare()
        comparing.compares("cases", replaying.compare)
        database_objects.register("reconciliation", database.statements)
        for event, hook in (
            ("retry.exhausted", listening.item_stopped),
            ("item.refused", listening.item_stopped),
            ("revision.missing", listening.revision_missing),
            ("revision.returned", answering.revision_returned),
            ("job.migrated", answering.migrated),
            ("steps.run_again", answering.run_again),
            ("deadline.passed", listening.deadline_passed),
            ("job.kept_back", listening.kept_back),
            ("proposal.refused", listening.proposal_refused),
            ("proposal.expired", listening.proposal_expired),
            ("changes.requested", listening.changes_requested),
            ("proposal.withdrawn", listening.proposal_withdrawn),
            ("proposal.voided", listening.proposal_voided),
            ("approver.missing", listening.approver_missing),
            ("operation.quarantined", listening.quarantined),
            ("send.blocked", listening.send_blocked),
            ("operation.key_mismatch", listening.key_mismatch),
            ("operation.sent_differs", listening.sent_differs),
            ("operation.possible_duplicate", listening.possible_duplicate),
            ("outcome.contradicted", listening.contradicted),
            ("message.undeliverable", listening.undeliverable),
            ("compensation.blocked", listening.compensation_blocked),
            ("compensation.resumed", answering.compensation_went_on),
            ("compensation.finished", answering.compensation_ended),
            ("attempts.granted", answering.attempts_granted),
            ("item.corrected", answering.item_corrected),
            ("item.skipped", answering.item_skipped),
            ("stage.closed", answering.stage_closed),
            ("job.given_up", answering.given_up),
            ("job.released", answering.released),
            ("proposal.frozen", answering.proposed_again),
            ("proposal.approved", answering.approved),
            ("approver.found", answering.approver_found),
        ):
            hooks.on_event(event, hook)
        for state in (JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
            hooks.on_state(state, answering.operations_changed)
        hooks.on_state(JobState.VALIDATED, answering.not_asked_any_more)
        for state in ENDED:
            hooks.on_state(state, answering.ended)
        hooks.on_state(JobState.CANCELLED, listening.cancelled)
        errands.register(working.ERRAND)
        errands.register(sweeping.ERRAND)
        errands.register(undelivered.ERRAND)
        errands.register(old_messages.ERRAND)
        errands.register(looking_after.ERRAND)
        errands.register(budgets.ERRAND)
        hooks.objects_to_redrive(redriving.why_not)
        permits.objects_to_sending(redriving.why_not_send)
        mismatched.stop_sends()
        hooks.explains_waiting(waiting.RANK, waiting.why_it_waits)
        deriving.after_change(reviewing.review)
