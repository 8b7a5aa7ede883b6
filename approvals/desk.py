"""A slip made ready to be read: its changes, signatures and requests, and what the desk says below it.

Nothing is left out and nothing is masked: this is for the people who may decide, and for those who look over it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from approvals.aftermath import SentSummary, summary_of
from approvals.changes import Change, Source, change_of, source_of
from approvals.closing import DID
from approvals.differing import Difference
from approvals.models import Closing, Verdict
from approvals.sets import PAGE, Part, part_of
from approvals.slips import Slip, SlipDecision, SlipOperation
from approvals.wording import count
from web.seeing import sight_of
from web.times import WITHIN_THE_DAY
from workflows.states import JobState

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
CLOSED = {
    Closing.REJECTED.value: "Rejected",
    Closing.CHANGES_REQUESTED.value: "Changes requested",
    Closing.WITHDRAWN.value: "Withdrawn",
    Closing.EXPIRED.value: "Expired",
    Closing.VOIDED.value: "Void",
    Closing.REPLACED.value: "Replaced",
}
"""What is written on a slip that was closed; one whose operations are sent shows its job's state."""

OPEN_REQUESTS = 3
OFFERED_FIELDS = TOLD_DIFFERENCES = 40


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation with its changes. `new`: there is nothing to compare with. `unfolded`: its request shows at once."""

    frozen: SlipOperation
    changes: list[Change]
    new: bool
    unfolded: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """One seal: its look and what was said. `same`: of the digest that this slip has."""

    decision: SlipDecision
    seal: str
    did: str
    same: bool


@dataclass(frozen=True, slots=True)
class Desk:
    """What stands below the slip. `signs` says as which of how many; otherwise `strong` and `text` say why not."""

    signs: str
    covers: str
    strong: str
    text: str
    mark: str


@dataclass(frozen=True, slots=True)
class Reading:
    """The page of one proposal beside its slip. Few operations are in `operations`, a set's page of them in `part`."""

    slip: Slip
    operations: list[Operation]
    part: Part | None
    total: int
    fields: int
    new: bool
    sources: list[Source]
    signatures: list[Signature]
    places: list[str]
    hidden: int
    alike: int
    far: bool
    failing: int
    closed_words: str
    sent: SentSummary | None
    differences: list[Difference]
    more_differences: list[Difference]
    desk: Desk
    again: bool
    may_export: bool


def reading_of(
    slip: Slip,
    *,
    handle: str,
    now: datetime,
    may_propose_again: bool,
    may_export: bool = False,
    start: str = "",
) -> Reading:
    """Everything that the templates only have to print. `start`: which page of a set (`sets.part_of`)."""
    sources = [source_of(s) for s in slip.sources]
    part = part_of(slip.operations, sources, start)
    few = slip.operations if part is None else []
    changes = [c for o in slip.operations for c in o.changes]
    sights = [sight_of(text) for text in _texts(slip.document)]
    return Reading(
        slip=slip,
        operations=[_operation(o, sources, len(few)) for o in few],
        part=part,
        total=len(slip.operations),
        fields=len(changes),
        new=bool(changes) and all(c["current"] is None for c in changes),
        sources=sources,
        signatures=[_signature(d, slip) for d in slip.decisions],
        places=slip.seats if slip.open else [],
        hidden=sum(len(s.hidden) for s in sights),
        alike=sum(len(s.alike) for s in sights),
        far=slip.expires_at - now >= WITHIN_THE_DAY,
        failing=sum(not c.ok for c in slip.checks),
        closed_words=CLOSED.get(slip.closing, ""),
        sent=summary_of(slip.sent, len(slip.operations)),
        differences=slip.differences[:TOLD_DIFFERENCES],
        more_differences=slip.differences[TOLD_DIFFERENCES:],
        desk=_desk(slip, handle, len(changes), part),
        may_export=may_export,
        again=may_propose_again and slip.closed_at is not None,
    )


def fields_to_choose(slip: Slip) -> list[str]:
    """What a request for changes can point at: the fields, of a long set only their names; nothing where those are many."""
    many = len(slip.operations) > 1
    names = [
        f"{o.ordinal}. {c['label']}" if many else str(c["label"]) for o in slip.operations for c in o.changes
    ]
    if len(names) > OFFERED_FIELDS:
        names = list(dict.fromkeys(str(c["label"]) for o in slip.operations for c in o.changes))
    return names if len(names) <= OFFERED_FIELDS else []


def why_not_now(slip: Slip) -> tuple[str, str, str]:
    """Why this person cannot sign at this moment: a sentence, what follows from it, and the mark before it."""
    if slip.closed_at is not None:
        return slip.closed_sentence, "", "locked"
    if slip.approved_at is not None:
        return "This is approved.", "It is checked again and then sent.", "ready"
    if slip.expired:
        return "Its time is over.", "Nobody can sign it any more; it can be proposed again.", "retry"
    if slip.job_state != JobState.AWAITING_APPROVAL:
        return f"{slip.job_label} does not await approval at this moment.", "", "locked"
    if slip.why_not:
        return (*_objection(slip), "locked")
    if not (slip.can_approve or slip.can_refuse):
        return f"{slip.job_label} is held.", "Nothing can be decided until the hold is lifted.", "held"
    return "", "", ""


def _objection(slip: Slip) -> tuple[str, str]:
    who = _who(slip.who_can)
    sentences = {
        "You have signed": ("You have signed this.", who),
        "You started this job": ("You started this job, so you cannot sign it.", who),
        "You had a hand in this job": ("You had a hand in this job, so you cannot sign it.", who),
        "Only managers decide": ("Only managers of this organisation decide.", who),
        "Over your limit": (
            "This is above what you may approve.",
            f"{who} You may still say no." if slip.can_refuse else who,
        ),
    }
    return sentences.get(slip.why_not, (f"{slip.why_not}.", who))


def _who(names: list[str]) -> str:
    if not names:
        return "Nobody else may sign it either: an admin has to change the policy or add a manager."
    shown = names[:4]
    listed = shown[0] if len(names) == 1 else f"{', '.join(shown[:-1])} or {shown[-1]}"
    more = count(len(names) - 4, "more person", "more people") if len(names) > 4 else ""
    return f"{listed}{f', or {more},' if more else ''} can sign it."


def _desk(slip: Slip, handle: str, fields: int, part: Part | None) -> Desk:
    if not slip.can_approve:
        if slip.closed_at is not None:
            return Desk("", "", "This slip is closed.", "What became of it stands at its top.", "locked")
        return Desk("", "", *why_not_now(slip))
    nth = slip.approvals + 1
    who = f"as {handle}, signing for {slip.signs_for}" if slip.signs_for else f"as {handle}"
    signs = who if slip.quorum <= 1 else f"{who}, {_ordinal(nth)} of {slip.quorum}"
    missing = slip.quorum - nth
    then = (
        "Then it is checked and sent."
        if missing <= 0
        else f"Then it needs {count(missing, 'more signature', 'more signatures')}."
    )
    what = count(len(slip.operations), "operation", "operations").removeprefix("one ")
    parts = [what, "receiver", *([count(fields, "field", "fields")] if fields else []), "expiry"]
    pages = " Signs all of them, whichever page you read." if part is not None and part.total > PAGE else ""
    return Desk(signs, f"Covers {', '.join(parts)}.{pages} {then}", "", "", "")


def _ordinal(number: int) -> str:
    return ORDINALS[number - 1] if 0 < number <= len(ORDINALS) else f"number {number}"


def _operation(one: SlipOperation, sources: list[Source], among: int) -> Operation:
    changes = [change_of(c, sources) for c in one.changes]
    return Operation(
        frozen=one,
        changes=changes,
        new=bool(changes) and all(c.current is None for c in changes),
        unfolded=among <= OPEN_REQUESTS,
    )


def _signature(decision: SlipDecision, slip: Slip) -> Signature:
    refused = decision.verdict != Verdict.APPROVE
    seal = "open" if decision.void else "refused" if refused else ""
    did = DID[decision.verdict].removesuffix(" this")
    return Signature(decision, seal, did, decision.digest == slip.digest)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, inside in value.items():
            yield name
            yield from _texts(inside)
    elif isinstance(value, list):
        for inside in value:
            yield from _texts(inside)
