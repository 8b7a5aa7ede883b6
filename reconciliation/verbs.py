"""What may be done about a case, and why not: one rule a verb, asked by the screen and, under locks, by the actions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from access.roles import Role
from reconciliation import guards, words
from reconciliation.kinds import VerbName, terms_of
from reconciliation.models import CaseKind
from reconciliation.restored import nothing_was_sent
from reconciliation.situation import SECONDERS, Situation
from workflows.actions.hold import is_held_by_a_person


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
    """The verbs of the case's kind, safest first, each with the reason where it is not allowed now. What is resolved can
    only be reopened.

    What is about a step is not offered where there is none, nor what is about a draft where there is a step.
    """
    if situation.case.resolved_at is not None:
        return [_verb(VerbName.REOPEN, situation)] if situation.doubt is not None else []
    beside = _ABOUT_A_DRAFT if situation.item is not None else _ABOUT_A_STEP
    if situation.case.kind != CaseKind.PERMANENT_ERROR:
        beside = set()
    return [_verb(name, situation) for name in terms_of(situation.case.kind).verbs if name not in beside]


_ABOUT_A_DRAFT = {VerbName.REPROPOSE, VerbName.RUN_AGAIN}
_ABOUT_A_STEP = {VerbName.RETRY, VerbName.CORRECT, VerbName.SKIP}


def why_not(name: VerbName, situation: Situation) -> str:
    """The sentence that forbids a verb now, or nothing."""
    if situation.case.resolved_at is not None:
        if name is VerbName.REOPEN:
            return RULES[name].why_not(situation)
        return f"{situation.case.label} is resolved."
    if name not in terms_of(situation.case.kind).verbs:
        return f"This does not answer what {situation.case.label} asks."
    return RULES[name].why_not(situation)


def needs_second(name: VerbName, situation: Situation) -> bool:
    """Whether another person has to second it."""
    return RULES[name].needs_second(situation)


def seconders(name: VerbName, situation: Situation) -> tuple[Role, ...]:
    """Who may second it: of a difference in what nobody may sign alone, an admin."""
    doubt = situation.doubt
    return (Role.ADMIN,) if name is VerbName.ACCEPT_CONFLICT and doubt and doubt.above_limit else SECONDERS


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


# --- the table --------------------------------------------------------------------------------------------------


def _receiver(s: Situation) -> str:
    return s.doubt.operation.receiver.title if s.doubt else "the receiver"


def _resubmit_sentence(s: Situation) -> str:
    doubt = s.doubt
    if doubt is None:
        return "Sends the same bytes under the same key."
    label = doubt.operation.label
    if guards.resubmit_needs_second(s):
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


def _match_sentence(s: Situation) -> str:
    """With what the statements cover: that no line is there says nothing of the days and the accounts that they do not."""
    said = "Records that a line of a statement is this operation. Where the amounts differ a second person agrees."
    return " ".join(part for part in (s.in_part, said, words.covered(_receiver(s), s.covered)) if part)


def _accept_sentence(s: Situation) -> str:
    second = (
        "an admin as the second person"
        if Role.OPERATOR not in seconders(VerbName.ACCEPT_CONFLICT, s)
        else "a second person"
    )
    return f"Records that what was done stands, although it differs. Needs a reason and {second}."


def _by_kind(s: Situation) -> str:
    outcomes = terms_of(s.case.kind).outcomes
    return f"Records what became of it ({'; '.join(outcomes)}), with what shows it."


def _release_sentence(s: Situation) -> str:
    said = "Lets workers claim the job again, where one of them has its revision."
    if is_held_by_a_person(s.job):
        return f"{said} It lifts the hold of {s.job.held_by} too (“{s.job.hold_reason}”)."
    return said


def _says(text: str) -> Callable[[Situation], str]:
    return lambda _: text


def _always(_: Situation) -> bool:
    return True


def _never(_: Situation) -> bool:
    return False


RULES: dict[VerbName, _Rule] = {
    VerbName.LOOK_UP: _Rule(
        "Look up at receiver", lambda s: f"Asks {_receiver(s)}. Reads only.", guards.look_up, _never
    ),
    VerbName.MATCH_LINE: _Rule(
        "Match a statement line",
        _match_sentence,
        guards.match_line,
        _never,
    ),
    VerbName.CONFIRM_WITH_RECEIPT: _Rule(
        "Confirm with receipt",
        _says("Records that it was applied. What the receipt says is compared with what was approved."),
        guards.confirm_with_receipt,
        guards.receipt_needs_second,
    ),
    VerbName.CONFIRM_NOT_APPLIED: _Rule(
        "Confirm not applied", _not_applied_sentence, guards.confirm_not_applied, _always, danger=True
    ),
    VerbName.RESUBMIT: _Rule(
        "Resubmit, same key", _resubmit_sentence, guards.resubmit, guards.resubmit_needs_second, danger=True
    ),
    VerbName.ACCEPT_CONFLICT: _Rule(
        "Accept the difference",
        _accept_sentence,
        guards.accept_conflict,
        _always,
        danger=True,
    ),
    VerbName.COMPENSATE: _Rule(
        "Compensate",
        _says("Starts a job that takes it back, with a proposal, a key and a full approval of its own."),
        guards.compensate,
        _never,
    ),
    VerbName.REOPEN: _Rule(
        "Reopen",
        _says("New evidence speaks against what was recorded: asks again what became of it. Needs a second person."),
        guards.reopen,
        _always,
        danger=True,
    ),
    VerbName.RETRY: _Rule(
        "Try again", _says("Grants more attempts. Everything that is saved stays saved."), guards.retry, _never
    ),
    VerbName.CORRECT: _Rule(
        "Correct and try again",
        _says("Changes what the step works on. The old value is kept; you cannot approve what comes of it."),
        guards.correct,
        _never,
    ),
    VerbName.SKIP: _Rule(
        "Go on without it",
        _says("Leaves this item out of what later steps get. You cannot approve what comes of it."),
        guards.skip,
        _never,
        danger=True,
    ),
    VerbName.REPROPOSE: _Rule(
        "Propose again",
        _says("Freezes the same draft anew, with new keys and a new expiry. No step runs again."),
        guards.repropose,
        _never,
    ),
    VerbName.RUN_AGAIN: _Rule(
        "Run steps again",
        _says("Has the steps you choose read and ask anew, for a new proposal. You cannot approve what comes of it."),
        guards.run_again,
        _never,
    ),
    VerbName.RELEASE: _Rule(
        "Lift the hold", _release_sentence, guards.release, _never,
    ),
    VerbName.MIGRATE: _Rule(
        "Migrate to another revision",
        _says("Takes the job to a revision that says how it goes on. Shows first what becomes of each step."),
        guards.migrate,
        _never,
    ),
    VerbName.RECORD_OUTCOME: _Rule("Record the outcome", _by_kind, guards.nothing, _never),
    VerbName.RECORD_UNDONE: _Rule(
        "Record how it was undone",
        _says("Records what became of what the job made: undone by hand, or left as it is. Nothing is called."),
        guards.record_undone,
        _never,
    ),
    VerbName.GO_ON: _Rule(
        "Go on",
        _says("Sends what was never sent, once what stood in the way is put right. Every check is repeated."),
        guards.go_on,
        _never,
    ),
    VerbName.STOP_HERE: _Rule(
        "Stop here",
        _says("Ends the job as failed. What was applied stays applied; nothing more is sent."),
        guards.stop_here,
        _never,
        danger=True,
    ),
    VerbName.GIVE_UP: _Rule(
        "Give the job up",
        lambda s: f"Ends the job as failed. {nothing_was_sent(s.job)}",
        guards.give_up,
        _never,
        danger=True,
    ),
    VerbName.CANCEL: _Rule(
        "Cancel the job",
        _says("Ends the job as cancelled; it cannot be redriven. What was sent already is looked up first."),
        guards.cancel,
        _never,
        danger=True,
    ),
}  # fmt: skip
