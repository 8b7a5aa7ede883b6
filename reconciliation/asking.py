"""The question before each deed: one dialog, which is a page without a script. One row a verb, read by the views."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from access import authority
from access.roles import Role
from reconciliation.actions import (
    matching,
    noting,
    outcomes,
    owning,
    receipts,
    reopening,
    seconding,
    steps,
    undoing,
)
from reconciliation.actions.carrying_out import BY_STATEMENT
from reconciliation.forms import (
    AcceptForm,
    AssignForm,
    CancelForm,
    CaseForm,
    CommentForm,
    DeclineForm,
    EvidenceForm,
    GiveUpForm,
    GoOnForm,
    MatchLineForm,
    NotAppliedForm,
    OutcomeForm,
    ReceiptForm,
    ReopenForm,
    ResubmitForm,
    RetryForm,
    SkipForm,
    SnoozeForm,
    StopForm,
)
from reconciliation.kinds import VerbName
from reconciliation.queries import CasePage
from reconciliation.situation import SECONDERS

COMMENTERS = (*SECONDERS, Role.MANAGER, Role.SUBMITTER)
"""Everybody but an auditor."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One posted form that is complete: who asks for what, on which case, at which version of it."""

    tenant_id: int
    case_id: int
    request_id: int
    person_id: int
    now: datetime
    form: CaseForm

    @property
    def given(self) -> dict[str, Any]:
        return self.form.cleaned_data

    @property
    def plainly(self) -> dict[str, Any]:
        """What every action on a case is called with."""
        return {
            "tenant_id": self.tenant_id, "case_id": self.case_id, "person_id": self.person_id, "now": self.now,
        }  # fmt: skip

    @property
    def here(self) -> dict[str, Any]:
        """The same with the version that was on the screen."""
        return {**self.plainly, "version": self.given["version"]}

    @property
    def answer(self) -> dict[str, Any]:
        """What the second person's actions are called with."""
        here = self.here
        del here["case_id"]
        return {**here, "request_id": self.request_id}

    def only(self, *names: str) -> dict[str, Any]:
        return {name: self.given[name] for name in names}


Act = Callable[[Asked], Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """One question. `lead` says what happens and what does not; a verb's own sentence stands in where it is empty."""

    path: str
    title: str
    form: type[CaseForm]
    button: str
    act: Act
    verb: VerbName | None = None
    lead: str = ""
    keep: str = "Leave it"
    stop: bool = False
    who: tuple[Role, ...] = SECONDERS
    outlives: bool = False
    """Whether it can still be done once the case is resolved."""

    @property
    def url_name(self) -> str:
        return f"case-{self.path}"

    def refusal(self, page: CasePage, roles: frozenset[Role]) -> str:
        """Why it cannot be done now by this person, or nothing. Said before asking; the action asks again."""
        if self.verb is not None:
            verb = next((v for v in page.verbs if v.name is self.verb), None)
            return verb.why_not if verb else f"This does not answer what {page.label} asks."
        if roles.isdisjoint(self.who):
            return authority.who_may(*self.who)
        return f"{page.label} is resolved." if page.resolved and not self.outlives else ""


def _receipt(asked: Asked) -> Any:
    assert isinstance(asked.form, ReceiptForm)
    given = asked.given
    return receipts.confirm_with_receipt(
        **asked.here, receipt=asked.form.receipt(), note=given["note"], paper=given["file"]
    )


def _match_line(asked: Asked) -> Any:
    assert isinstance(asked.form, MatchLineForm)
    return matching.match_line(
        **asked.here, lines=asked.form.line_ids, **asked.only("reason", "apart_as", "part")
    )


def _not_applied(asked: Asked) -> Any:
    given = asked.only("evidence", "basis", "then")
    source = asked.given["source"] if given["basis"] == BY_STATEMENT else ""
    return outcomes.confirm_not_applied(**asked.here, **given, source=source, paper=asked.given["file"])


def _evidence(asked: Asked) -> Any:
    given = asked.only("summary", "detail", "source", "taken_at")
    return noting.add_evidence(**asked.plainly, **given, paper=asked.given["file"])


def perform(ask: Ask, asked: Asked) -> tuple[int, str]:
    """Do it; the case in which it goes on, and the sentence that says what was done. Raises what the action refuses."""
    done = ask.act(asked)
    said = "Added. It is kept with the case." if isinstance(done, noting.Noted) else str(done.sentence)
    return done.case_id, said


_V = VerbName

ASKS: tuple[Ask, ...] = (
    Ask(
        "receipt", "Confirm with a receipt", ReceiptForm, "Confirm as applied", _receipt,
        verb=_V.CONFIRM_WITH_RECEIPT,
        lead="Enter what the receipt says. It is compared with what was approved; only if it agrees, the operation is confirmed.",
    ),
    Ask(
        "match", "Match a statement line", MatchLineForm, "Match it", _match_line,
        verb=_V.MATCH_LINE,
    ),
    Ask(
        "not-applied", "Confirm that it was not applied", NotAppliedForm, "Ask for a second person", _not_applied,
        verb=_V.CONFIRM_NOT_APPLIED, stop=True,
        lead="Nothing is settled and nothing is sent before a second person has confirmed it.",
    ),
    Ask(
        "resubmit", "Resubmit with the same key", ResubmitForm, "Resubmit, same key",
        lambda a: outcomes.resubmit_same_key(**a.here, **a.only("reason")),
        verb=_V.RESUBMIT, stop=True, keep="Don’t send",
    ),
    Ask(
        "accept", "Accept the difference", AcceptForm, "Ask for a second person",
        lambda a: outcomes.accept_conflict(**a.here, **a.only("difference", "reason")),
        verb=_V.ACCEPT_CONFLICT, stop=True,
    ),
    Ask(
        "reopen", "Reopen", ReopenForm, "Ask for a second person",
        lambda a: reopening.reopen(**a.here, **a.only("evidence", "source", "taken_at"), paper=a.given["file"]),
        verb=_V.REOPEN, stop=True,
        lead="What was recorded stays readable as it is. Nothing moves before a second person agrees; then the outcome is unknown again.",
    ),
    Ask(
        "retry", "Try again", RetryForm, "Try again",
        lambda a: steps.retry(**a.here, **a.only("attempts", "reason")), verb=_V.RETRY,
    ),
    Ask(
        "skip", "Go on without it", SkipForm, "Go on without it",
        lambda a: steps.skip(**a.here, **a.only("reason")), verb=_V.SKIP, stop=True,
    ),
    Ask("repropose", "Propose again", CaseForm, "Propose again", lambda a: steps.repropose(**a.here), verb=_V.REPROPOSE),
    Ask("release", "Lift the hold", CaseForm, "Lift the hold", lambda a: steps.release(**a.here), verb=_V.RELEASE),
    Ask(
        "go-on", "Go on", GoOnForm, "Go on",
        lambda a: steps.go_on(**a.here, **a.only("reason")), verb=_V.GO_ON, keep="Don’t send",
    ),
    Ask(
        "outcome", "Record the outcome", OutcomeForm, "Record it",
        lambda a: steps.record_outcome(**a.here, **a.only("outcome", "evidence", "source"), paper=a.given["file"]),
        verb=_V.RECORD_OUTCOME,
    ),
    Ask(
        "undone", "Record how it was undone", OutcomeForm, "Record it",
        lambda a: undoing.record_undone(**a.here, **a.only("outcome", "evidence", "source"), paper=a.given["file"]),
        verb=_V.RECORD_UNDONE,
    ),
    Ask(
        "stop", "Stop here", StopForm, "End the job",
        lambda a: steps.stop_here(**a.here, **a.only("reason")), verb=_V.STOP_HERE, stop=True,
    ),
    Ask(
        "give-up", "Give the job up", GiveUpForm, "Give the job up",
        lambda a: steps.give_up(**a.here, **a.only("reason")), verb=_V.GIVE_UP, stop=True,
    ),
    Ask(
        "cancel", "Cancel the job", CancelForm, "Cancel job",
        lambda a: steps.cancel(**a.here, **a.only("reason")), verb=_V.CANCEL, stop=True, keep="Keep it running",
    ),
    Ask(
        "assign", "Hand over", AssignForm, "Hand over",
        lambda a: owning.hand_over(**a.here, assignee_id=a.given["assignee"], note=a.given["note"]),
        lead="Who works on this case from now on. Its question and its due time stay as they are.",
    ),
    Ask(
        "snooze", "Put it off", SnoozeForm, "Put it off",
        lambda a: owning.snooze(**a.here, **a.only("until", "reason")),
        lead="It leaves the list until then. The outcome stays as it is, and no clock of the receiver stops.",
    ),
    Ask(
        "comment", "Comment", CommentForm, "Comment",
        lambda a: noting.comment(**a.plainly, **a.only("body")),
        lead="Kept with the case for good. It proves nothing and settles nothing.",
        who=COMMENTERS, outlives=True,
    ),
    Ask(
        "evidence", "Add evidence", EvidenceForm, "Add evidence", _evidence,
        lead="Kept with the case for good. It settles nothing by itself.", outlives=True,
    ),
)  # fmt: skip
"""What is asked on a case."""

ANSWERS: tuple[Ask, ...] = (
    Ask(
        "second", "Second it", CaseForm, "Second it", lambda a: seconding.second(**a.answer),
        lead="You answer for it beside whoever asked. Every check is repeated, and then it is done.",
    ),
    Ask(
        "decline", "Decline", DeclineForm, "Decline",
        lambda a: seconding.decline(**a.answer, **a.only("reason")),
        lead="The request ends and the case stays open.",
    ),
    Ask(
        "withdraw", "Take it back", CaseForm, "Take it back", lambda a: seconding.withdraw_request(**a.answer),
        lead="The request ends and the case stays open. Nothing was done.", who=(Role.OPERATOR,),
    ),
)  # fmt: skip
"""What is answered to somebody who asks for a second person."""

BUTTONS: dict[VerbName, tuple[str, str]] = {
    _V.LOOK_UP: ("Look up", "l"),
    _V.MATCH_LINE: ("Match…", ""),
    _V.CONFIRM_WITH_RECEIPT: ("Confirm…", "c"),
    _V.CONFIRM_NOT_APPLIED: ("Not applied…", ""),
    _V.RESUBMIT: ("Resubmit…", ""),
    _V.ACCEPT_CONFLICT: ("Accept…", ""),
    _V.REOPEN: ("Reopen…", ""),
    _V.COMPENSATE: ("Compensate…", ""),
    _V.RETRY: ("Try again…", "t"),
    _V.CORRECT: ("Correct…", ""),
    _V.SKIP: ("Skip…", ""),
    _V.REPROPOSE: ("Propose…", "p"),
    _V.RUN_AGAIN: ("Run again…", "s"),
    _V.RELEASE: ("Lift…", "h"),
    _V.MIGRATE: ("Migrate…", ""),
    _V.GO_ON: ("Go on…", ""),
    _V.RECORD_OUTCOME: ("Record…", "o"),
    _V.RECORD_UNDONE: ("Record…", "o"),
    _V.STOP_HERE: ("Stop…", ""),
    _V.GIVE_UP: ("Give up…", ""),
    _V.CANCEL: ("Cancel…", ""),
}
"""The words on each verb's button in the ladder, and the letter that moves to it."""

URL_OF: dict[VerbName, str] = {
    _V.LOOK_UP: "case-look-up",
    _V.CORRECT: "item-correct",
    _V.MIGRATE: "job-migrate",
    _V.RUN_AGAIN: "job-run-again",
    _V.COMPENSATE: "operation-compensate",
    **{a.verb: a.url_name for a in ASKS if a.verb is not None},
}
