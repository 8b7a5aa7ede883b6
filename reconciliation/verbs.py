"""What may be done about a case, and why not: one rule a verb, asked by the screen and, under locks, by the actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dispatch.states import OperationState
from reconciliation import words
from reconciliation.kinds import VerbName, terms_of
from reconciliation.situation import Doubt, Situation
from workflows.states import ENDED, JobState

S = OperationState


@dataclass(frozen=True, slots=True)
class Verb:
    """One thing that can be done about a case. `why_not` is empty exactly where it is allowed now."""

    name: VerbName
    title: str
    sentence: str
    allowed: bool
    why_not: str
    needs_second: bool
    danger: bool


@dataclass(frozen=True, slots=True)
class _Rule:
    title: str
    sentence: Callable[[Situation], str]
    why_not: Callable[[Situation], str]
    needs_second: Callable[[Situation], bool]
    danger: bool = False


def verbs_of(situation: Situation) -> list[Verb]:
    """The verbs of the case's kind, safest first, each with the reason where it is not allowed now."""
    return [_verb(name, situation) for name in terms_of(situation.case.kind).verbs]


def why_not(name: VerbName, situation: Situation) -> str:
    """The sentence that forbids a verb now, or nothing."""
    if situation.case.resolved_at is not None:
        return f"{situation.case.label} is resolved."
    if name not in terms_of(situation.case.kind).verbs:
        return f"This does not answer what {situation.case.label} asks."
    return RULES[name].why_not(situation)


def needs_second(name: VerbName, situation: Situation) -> bool:
    """Whether another person has to second it."""
    return RULES[name].needs_second(situation)


def _verb(name: VerbName, situation: Situation) -> Verb:
    rule, reason = RULES[name], why_not(name, situation)
    return Verb(
        name=name,
        title=rule.title,
        sentence=rule.sentence(situation),
        allowed=not reason,
        why_not=reason,
        needs_second=rule.needs_second(situation),
        danger=rule.danger,
    )


# --- the doubtful outcome ---------------------------------------------------------------------------------------


def _look_up(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None:
        return "There is no operation to ask about."
    if doubt.contract.lookup is None:
        return f"{doubt.operation.receiver.title} offers no look-up."
    return ""


def _confirm(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None or doubt.operation.state != S.UNKNOWN:
        return _not_unknown(doubt)
    if not doubt.frozen:
        return "The signed document cannot be read, so nothing can be compared with it."
    return ""


def _not_applied(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None or doubt.operation.state != S.UNKNOWN:
        return _not_unknown(doubt)
    if (at := doubt.absence_counts_from) is not None and s.clock < at:
        return f"Finding nothing proves nothing before {words.clock(at, s.case.tenant_id)}."
    return _in_flight(s, doubt)


def _resubmit(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None or doubt.operation.state not in (S.UNKNOWN, S.NOT_APPLIED):
        return "Only what is unknown, or known not to have been applied, can be sent again."
    return _stopped(s, doubt) or _window(s, doubt) or _in_flight(s, doubt)


def _stopped(s: Situation, doubt: Doubt) -> str:
    operation, job = doubt.operation, s.job
    if job.state in ENDED:
        return f"{job.label} has ended. Nothing more is sent for it."
    if job.cancel_requested_at is not None:
        return f"{job.cancel_requested_by} asked to cancel {job.label}."
    if job.held_at is not None:
        return f"{job.held_by} holds {job.label}."
    if operation.receiver.paused_at is not None:
        return f"{operation.receiver.title} is paused."
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


def _resubmit_needs_second(s: Situation) -> bool:
    doubt = s.doubt
    if doubt is None:
        return True
    open_window = doubt.safe_until is not None and doubt.safe_until > s.clock
    return not (doubt.has_window and open_window)


def _conflict(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None or doubt.operation.state != S.CONFLICTED:
        return "The receiver's answer does not differ (any more)."
    return ""


def _not_unknown(doubt: Doubt | None) -> str:
    state = words.FATES[doubt.operation.state] if doubt else "not about an operation"
    return f"The outcome is not unknown: it is {state}."


def _go_on(s: Situation) -> str:
    if not s.unsent:
        return "Nothing is left that was never sent."
    if s.unreachable:
        return "What is left may only follow a change that was not made."
    if s.job.state in ENDED or s.job.cancel_requested_at is not None:
        return f"{s.job.label} has ended or is stopping."
    return ""


def _stop_here(s: Situation) -> str:
    if s.job.state != JobState.NEEDS_RECONCILIATION:
        return f"{s.job.label} does not wait for this."
    return ""


# --- steps and proposals ----------------------------------------------------------------------------------------


def _retry(s: Situation) -> str:
    if s.item is None:
        return "There is no step to try again."
    if not s.item_is_stuck:
        return "The step is not stopped (any more)."
    if s.job.state in ENDED:
        return f"{s.job.label} has ended."
    return ""


def _give_up(s: Situation) -> str:
    if s.job.state not in (JobState.RECEIVED, JobState.VALIDATED, JobState.READY_TO_COMMIT):
        return f"{s.job.label} is past the point where it can simply be given up."
    return ""


def _repropose(s: Situation) -> str:
    return "" if s.job.state == JobState.VALIDATED else f"{s.job.label} has moved on."


def _release(s: Situation) -> str:
    return "" if s.job.held_at is not None else f"{s.job.label} is not held (any more)."


def _nothing(s: Situation) -> str:
    return ""


# --- the table --------------------------------------------------------------------------------------------------


def _receiver(s: Situation) -> str:
    return s.doubt.operation.receiver.title if s.doubt else "the receiver"


def _resubmit_sentence(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None:
        return "Sends the same bytes under the same key."
    label = doubt.operation.label
    if _resubmit_needs_second(s):
        return f"Sends {label} again with the same key. {_receiver(s)} will not deduplicate this."
    assert doubt.safe_until is not None
    at = words.clock(doubt.safe_until, s.case.tenant_id)
    return f"Sends {label} again with the same key, deduplicated until {at}."


def _not_applied_sentence(s: Situation) -> str:
    doubt = s.doubt
    proven_by = "the receiver's written statement"
    if doubt is not None and (at := doubt.absence_counts_from) is not None:
        proven_by = f"a look-up after {words.clock(at, s.case.tenant_id)} that finds nothing, or {proven_by}"
    return f"Records that it did not happen. Needs {proven_by}, and a second person."


def _by_kind(s: Situation) -> str:
    outcomes = terms_of(s.case.kind).outcomes
    return f"Records what became of it ({'; '.join(outcomes)}), with what shows it."


def _says(text: str) -> Callable[[Situation], str]:
    return lambda _: text


def _always(_: Situation) -> bool:
    return True


def _never(_: Situation) -> bool:
    return False


RULES: dict[VerbName, _Rule] = {
    VerbName.LOOK_UP: _Rule(
        "Look up at receiver", lambda s: f"Asks {_receiver(s)}. Reads only.", _look_up, _never
    ),
    VerbName.CONFIRM_WITH_RECEIPT: _Rule(
        "Confirm with receipt",
        _says("Records that it was applied. What the receipt says is compared with what was approved."),
        _confirm,
        _never,
    ),
    VerbName.CONFIRM_NOT_APPLIED: _Rule(
        "Confirm not applied", _not_applied_sentence, _not_applied, _always, danger=True
    ),
    VerbName.RESUBMIT: _Rule(
        "Resubmit, same key", _resubmit_sentence, _resubmit, _resubmit_needs_second, danger=True
    ),
    VerbName.ACCEPT_CONFLICT: _Rule(
        "Accept the difference",
        _says("Records that what was done stands, although it differs. Needs a reason and a second person."),
        _conflict,
        _always,
        danger=True,
    ),
    VerbName.RETRY: _Rule(
        "Try again", _says("Grants more attempts. Everything that is saved stays saved."), _retry, _never
    ),
    VerbName.REPROPOSE: _Rule(
        "Propose again",
        _says("Freezes the same draft anew, with new keys and a new expiry. No step runs again."),
        _repropose,
        _never,
    ),
    VerbName.RELEASE: _Rule(
        "Lift the hold", _says("Lets workers claim the job again. One of them must have its revision."), _release,
        _never,
    ),
    VerbName.RECORD_OUTCOME: _Rule("Record the outcome", _by_kind, _nothing, _never),
    VerbName.GO_ON: _Rule(
        "Go on",
        _says("Sends what was never sent, once what stood in the way is put right. Every check is repeated."),
        _go_on,
        _never,
    ),
    VerbName.STOP_HERE: _Rule(
        "Stop here",
        _says("Ends the job as failed. What was applied stays applied; nothing more is sent."),
        _stop_here,
        _never,
        danger=True,
    ),
    VerbName.GIVE_UP: _Rule(
        "Give the job up", _says("Ends the job as failed. Nothing was sent."), _give_up, _never, danger=True
    ),
}  # fmt: skip
