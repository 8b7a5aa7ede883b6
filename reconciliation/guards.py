"""What stands in the way of each verb now: one sentence, or nothing. Pure but for the tenant's time zone."""

from __future__ import annotations

from dispatch.states import OperationState
from reconciliation import mismatched, words
from reconciliation.situation import Doubt, Situation
from workflows import stopped
from workflows.compensation import plan
from workflows.compensation.plan import Standing
from workflows.states import ENDED, JobState

S = OperationState


# --- the doubtful outcome ---------------------------------------------------------------------------------------


def look_up(s: Situation) -> str:
    """Reads only, so only a receiver that cannot be asked stands in the way."""
    doubt = s.doubt
    if doubt is None:
        return "There is no operation to ask about."
    if doubt.contract.lookup is None:
        return f"{doubt.operation.receiver.title} offers no look-up."
    return ""


def match_line(s: Situation) -> str:
    """Something that was sent and is not settled, an amount to compare, and a statement to look into."""
    doubt = s.doubt
    if doubt is None or doubt.operation.state not in (S.UNKNOWN, S.SUBMITTED):
        return _not_unknown(doubt)
    if doubt.operation.amount_minor is None:
        return "No amount was approved, so no line of a statement can be compared with it."
    if doubt.in_flight:
        return "A submission is open right now."
    return "" if s.covered is not None else f"No statement of {doubt.operation.receiver.title} is applied."


def confirm_with_receipt(s: Situation) -> str:
    """Something unknown, and a document to compare with."""
    doubt = s.doubt
    if doubt is None or doubt.operation.state != S.UNKNOWN:
        return _not_unknown(doubt)
    if not doubt.frozen:
        return "The signed document cannot be read, so nothing can be compared with it."
    return ""


def receipt_needs_second(s: Situation) -> bool:
    """Whether the policy lets nobody sign this alone: then nobody attests alone, either, that it happened."""
    return s.doubt is not None and s.doubt.above_limit


def confirm_not_applied(s: Situation) -> str:
    """Something unknown that can no longer arrive, and whose absence means something by now."""
    doubt = s.doubt
    if doubt is None or doubt.operation.state != S.UNKNOWN:
        return _not_unknown(doubt)
    if s.in_part:
        return _parts_stand(s)
    if (at := doubt.absence_counts_from) is not None and s.clock < at:
        return f"Finding nothing proves nothing before {words.clock(at, s.case.tenant_id)}."
    return _in_flight(s, doubt)


def resubmit(s: Situation) -> str:
    """Nothing may be in flight, nothing may forbid a send, and the key must still mean the same request."""
    doubt = s.doubt
    if doubt is None or doubt.operation.state not in (S.UNKNOWN, S.NOT_APPLIED):
        return "Only what is unknown, or known not to have been applied, can be sent again."
    if s.in_part:
        return _parts_stand(s)
    return forbids_a_send(s, doubt) or _window(s, doubt) or _in_flight(s, doubt)


def _parts_stand(s: Situation) -> str:
    return f"{s.in_part} Take those lines back first, if they are not it."


def forbids_a_send(s: Situation, doubt: Doubt) -> str:
    """What forbids any send of it: also to whoever orders one together with saying that it was not applied."""
    operation, job = doubt.operation, s.job
    if job.state in ENDED:
        return f"{job.label} has ended. Nothing more is sent for it."
    if job.cancel_requested_at is not None:
        return f"{job.cancel_requested_by} asked to cancel {job.label}."
    if job.held_at is not None:
        return f"{job.held_by} holds {job.label}."
    if operation.receiver.paused_at is not None:
        return f"{operation.receiver.title} is paused."
    if stopped := mismatched.why_not_send(job, operation):
        return stopped
    if doubt.hard_policy:
        return doubt.hard_policy
    if not doubt.same_bytes:
        return "The bytes are not the ones that were approved and sent before."
    return ""


def _in_flight(s: Situation, doubt: Doubt) -> str:
    if doubt.in_flight:
        return "A submission is open right now."
    until = doubt.may_arrive_until
    if until is not None and s.clock < until:
        at = words.clock(until, s.case.tenant_id)
        return f"The first send may still arrive or be worked on until {at}."
    if doubt.sender_lives:
        return "The process that may have sent it still lives and could still be sending."
    return ""


def _window(s: Situation, doubt: Doubt) -> str:
    receiver = doubt.operation.receiver.title
    if doubt.settled_not_applied:
        if doubt.proposal.expires_at <= s.clock:
            return "The approval has expired, and only an unknown outcome may be sent again without it."
        return ""
    # Without a published window a second person and a written reason stand in for it; a passed one refuses.
    if doubt.has_window and (doubt.safe_until is None or doubt.safe_until <= s.clock):
        at = words.clock(doubt.safe_until, s.case.tenant_id) if doubt.safe_until else "the first send"
        return (
            f"Closed since {at}: {receiver} no longer recognises the key. "
            "Have it confirmed first that it was not applied."
        )
    return ""


def resubmit_needs_second(s: Situation) -> bool:
    """Whether the receiver would not recognise the key, so that a second person answers for it."""
    doubt = s.doubt
    if doubt is None:
        return True
    open_window = doubt.safe_until is not None and doubt.safe_until > s.clock
    return not (doubt.has_window and open_window)


def accept_conflict(s: Situation) -> str:
    """An answer that differs."""
    doubt = s.doubt
    if doubt is None or doubt.operation.state != S.CONFLICTED:
        return "The receiver's answer does not differ (any more)."
    return ""


def compensate(s: Situation) -> str:
    """Something that was applied, of which something is left, and a workflow that says how."""
    return s.compensable.why_not


def reopen(s: Situation) -> str:
    """A settled outcome that nothing else has been built on."""
    return s.why_not_reopen


def _not_unknown(doubt: Doubt | None) -> str:
    state = words.FATES[doubt.operation.state] if doubt else "not about an operation"
    return f"The outcome is not unknown: it is {state}."


def go_on(s: Situation) -> str:
    """Something that was never sent, and whose turn can come."""
    if not s.unsent:
        return "Nothing is left that was never sent."
    if s.unreachable:
        return "What is left may only follow a change that was not made."
    if s.job.state in ENDED or s.job.cancel_requested_at is not None:
        return f"{s.job.label} has ended or is stopping."
    return ""


def stop_here(s: Situation) -> str:
    """A job that waits for this."""
    if s.job.state != JobState.NEEDS_RECONCILIATION:
        return f"{s.job.label} does not wait for this."
    return ""


# --- steps and proposals ----------------------------------------------------------------------------------------


def retry(s: Situation) -> str:
    """A step that has stopped, in a job that waits for it."""
    return _no_step(s) if s.item is None else stopped.why_not_again(s.job, s.item)


def correct(s: Situation) -> str:
    """One whose input is a person's to change."""
    return _no_step(s) if s.item is None else stopped.why_not_correct(s.job, s.item)


def skip(s: Situation) -> str:
    """One that its workflow can do without."""
    return _no_step(s) if s.item is None else stopped.why_not_skip(s.job, s.item)


def _no_step(s: Situation) -> str:
    return f"{s.case.label} is not about a step."


def cancel(s: Situation) -> str:
    """A job that has not ended."""
    return f"{s.job.label} has ended." if s.job.state in ENDED else ""


def record_undone(s: Situation) -> str:
    """Something that the machine does not undo by itself."""
    if plan.standing_of(s.job) not in (Standing.STOPPED, Standing.BLOCKED):
        return "It is being undone by itself, or has been."
    return ""


def give_up(s: Situation) -> str:
    """A job of which nothing has been sent."""
    if s.job.state not in (JobState.RECEIVED, JobState.VALIDATED, JobState.READY_TO_COMMIT):
        return f"{s.job.label} is past the point where it can simply be given up."
    return ""


def repropose(s: Situation) -> str:
    """A job that waits with its draft."""
    return "" if s.job.state == JobState.VALIDATED else f"{s.job.label} has moved on."


def run_again(s: Situation) -> str:
    """A job whose proposal is closed, and of which nothing stands elsewhere."""
    return s.why_not_run_again


def release(s: Situation) -> str:
    """A job that is held, and whose revision a worker has by now: else it would be held again."""
    if s.without_revision:
        return f"No worker has revision {s.job.revision} of {s.job.workflow}. Deploy it: the job then goes on by itself."
    return "" if s.job.held_at is not None else f"{s.job.label} is not held (any more)."


def migrate(s: Situation) -> str:
    """A revision that leads on, and a job that has no proposal yet."""
    return s.why_not_migrate


def nothing(s: Situation) -> str:
    """Nothing stands in the way."""
    return ""
