from django.apps import AppConfig


class ReconciliationConfig(AppConfig):
    name = "reconciliation"

    def ready(self) -> None:
        from access import database_objects
        from dispatch import deriving, opening
        from reconciliation import database, listening, redriving, replaying, reviewing, waiting
        from workflows import hooks
        from workflows.replaying import comparing
        from workflows.states import ENDED, JobState

        comparing.compares("cases", replaying.compare)
        database_objects.register("reconciliation", database.statements)
        for event, hook in (
            ("retry.exhausted", listening.item_stopped),
            ("item.refused", listening.item_stopped),
            ("revision.missing", listening.revision_missing),
            ("revision.returned", listening.revision_returned),
            ("deadline.passed", listening.deadline_passed),
            ("proposal.refused", listening.proposal_refused),
            ("proposal.expired", listening.proposal_expired),
            ("changes.requested", listening.changes_requested),
            ("proposal.withdrawn", listening.proposal_withdrawn),
            ("proposal.voided", listening.proposal_voided),
            ("approver.missing", listening.approver_missing),
            ("send.blocked", listening.send_blocked),
            ("operation.key_mismatch", listening.key_mismatch),
            ("operation.possible_duplicate", listening.possible_duplicate),
            ("outcome.contradicted", listening.contradicted),
            ("compensation.blocked", listening.compensation_blocked),
            ("compensation.resumed", listening.compensation_went_on),
            ("compensation.finished", listening.compensation_ended),
            ("attempts.granted", listening.attempts_granted),
            ("item.corrected", listening.item_corrected),
            ("item.skipped", listening.item_skipped),
            ("stage.closed", listening.stage_closed),
            ("job.given_up", listening.given_up),
            ("job.released", listening.released),
            ("proposal.frozen", listening.proposed_again),
            ("proposal.approved", listening.approved),
        ):
            hooks.on_event(event, hook)
        for state in (JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
            hooks.on_state(state, listening.operations_changed)
        for state in ENDED:
            hooks.on_state(state, listening.ended)
        hooks.on_state(JobState.CANCELLED, listening.cancelled)
        hooks.objects_to_redrive(redriving.why_not)
        opening.objects_to_sending(redriving.why_not_send)
        hooks.explains_waiting(waiting.RANK, waiting.why_it_waits)
        deriving.after_change(reviewing.review)
