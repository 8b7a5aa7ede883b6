"""What answers a doubtful outcome, inside the transaction of whoever may: the asker, or the second person.

The caller holds job → operations → case, has repeated every guard, and the case is closed here before the operation
moves, so that no hook takes the answer for the machine's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access.roles import Actor
from dispatch import settling
from dispatch.models import Operation
from dispatch.moving import move, observe
from dispatch.states import NextStep, OperationState
from reconciliation import guards
from reconciliation.actions.comparing import Receipt, compare
from reconciliation.actions.working import EvidenceMissing, NotAllowedNow
from reconciliation.casework import close_case
from reconciliation.kinds import VerbName
from reconciliation.situation import Doubt, Situation
from reconciliation.verbs import needs_second
from reconciliation.words import clock
from statements.matching import making, parts
from statements.matching.making import Pair, Word
from statements.matching.models import DifferenceKind
from workflows import journal, references
from workflows.models import Job

BY_LOOKUP, BY_STATEMENT = "look-up", "statement"
STOP, SEND_AGAIN = "stop", "send again"


@dataclass(frozen=True, slots=True)
class Deed:
    """One resolution as it was asked for. `actor` is the asker, whose word it is; `second` stands beside."""

    verb: VerbName
    reason: str
    details: dict[str, str]
    actor: Actor
    second: Actor | None
    now: datetime


def check(situation: Situation, operation: Operation, deed: Deed) -> None:
    """What the verb's own rule does not know: the evidence that this deed brings."""
    if deed.verb is VerbName.CONFIRM_NOT_APPLIED:
        _check_not_applied(situation, deed)
    if deed.verb is VerbName.ACCEPT_CONFLICT:
        _check_difference(situation, deed)
    if deed.verb is VerbName.CONFIRM_WITH_RECEIPT:
        compare(situation, operation, Receipt.read(deed.details), has_file=bool(deed.details["file"]))


def carry_out(situation: Situation, operation: Operation, deed: Deed) -> str:
    """Close the case and settle the operation by the deed; the sentence that says what was done."""
    job = situation.job
    if deed.verb is VerbName.CONFIRM_WITH_RECEIPT:
        _close(situation, deed, "applied, by receipt")
        return _settle_by_receipt(job, operation, deed)
    if deed.verb is VerbName.MATCH_LINE:
        _close(situation, deed, "applied, by statement line")
        return _match_line(job, operation, deed)
    if deed.verb is VerbName.CONFIRM_NOT_APPLIED:
        _close(situation, deed, "not applied" if deed.details["then"] == STOP else "not applied, sent again")
        return _settle_not_applied(job, operation, situation, deed)
    if deed.verb is VerbName.RESUBMIT:
        _close(situation, deed, "sent again, same key")
        beyond = needs_second(VerbName.RESUBMIT, situation)
        settling.order_resubmission(
            job=job, operation=operation, actor=deed.actor, now=deed.now, beyond_window=beyond
        )
        return f"{operation.label} is sent again with the same key."
    if deed.verb is VerbName.REOPEN:
        return _reopen(job, operation, situation, deed)
    assert deed.verb is VerbName.ACCEPT_CONFLICT
    _close(situation, deed, "difference accepted")
    settling.accept_variance(
        job=job, operation=operation, summary=_signed(deed), detail=deed.details.get("difference", ""),
        actor=deed.actor, now=deed.now,
    )  # fmt: skip
    return f"What was done stands as the outcome of {operation.label}."


def _close(situation: Situation, deed: Deed, resolution: str) -> None:
    close_case(
        job=situation.job,
        case=situation.case,
        resolution=resolution,
        reason=deed.reason,
        actor=deed.actor,
        now=deed.now,
        second=deed.second,
    )


def _settle_by_receipt(job: Job, operation: Operation, deed: Deed) -> str:
    receipt = Receipt.read(deed.details)
    settling.settle_confirmed(
        job=job, operation=operation, kind="receipt", summary=_signed(deed), receipt_id=receipt.receipt_id.strip(),
        actor=deed.actor, now=deed.now, detail=receipt.as_text(),
    )  # fmt: skip
    return f"{operation.label} is confirmed by {receipt.title[:1].lower()}{receipt.title[1:]}."


def _match_line(job: Job, operation: Operation, deed: Deed) -> str:
    pairs = [Pair(int(line), job, operation) for line in deed.details["lines"].split(",")]
    if deed.details.get("part"):
        (pair,) = pairs
        added = parts.add(pair, Word(deed.actor, deed.reason, deed.now))
        return (
            f"{operation.label} is confirmed by {deed.details['line']}, the last part of it. {added.sentence}"
        )
    # Of what was asked for before it had to be said, nobody knows.
    apart_as = deed.details.get("apart_as") or DifferenceKind.OTHER.value
    making.make(pairs, Word(deed.actor, deed.reason, deed.now, deed.second, apart_as))
    return f"{operation.label} is confirmed by {deed.details['line']}."


def _reopen(job: Job, operation: Operation, situation: Situation, deed: Deed) -> str:
    if taken := references.take_back(job):
        raise NotAllowedNow(taken)
    _close(situation, deed, "reopened")
    settling.reopen(job=job, operation=operation, summary=_signed(deed), actor=deed.actor, now=deed.now)
    return f"{operation.label} is unknown again. A new case asks what became of it."


def _check_difference(situation: Situation, deed: Deed) -> None:
    """What is let stand is what whoever asked has seen: a look-up or a line may have told something else since."""
    assert situation.doubt is not None
    if (says := situation.doubt.difference) != deed.details.get("difference", ""):
        raise NotAllowedNow(
            f"The receiver says something else by now: {says}. Whoever lets that stand has to see it first; nothing was done."
        )


def _check_not_applied(situation: Situation, deed: Deed) -> None:
    doubt = situation.doubt
    assert doubt is not None
    if deed.details.get("basis") == BY_LOOKUP:
        _check_lookup(situation, doubt)
    elif deed.details.get("basis") != BY_STATEMENT:
        raise EvidenceMissing("Say what shows it: a look-up, or what the receiver has written.")
    if deed.details.get("then") not in (STOP, SEND_AGAIN):
        raise EvidenceMissing("Say what follows: stop, or send again.")
    if deed.details["then"] == SEND_AGAIN and doubt.proposal.expires_at <= situation.clock:
        raise NotAllowedNow("The approval has expired, so it cannot be sent again. Close it as not applied.")
    if deed.details["then"] == SEND_AGAIN and (why := guards.forbids_a_send(situation, doubt)):
        raise NotAllowedNow(f"It cannot be sent again: {why} Close it as not applied.")


def _check_lookup(situation: Situation, doubt: Doubt) -> None:
    counts_from, last = doubt.absence_counts_from, doubt.last_lookup()
    if counts_from is None:
        title = doubt.operation.receiver.title
        raise NotAllowedNow(f"That {title} finds nothing proves nothing. Its written statement would.")
    reopened_at = doubt.operation.reopened_at
    counts_from = max(counts_from, reopened_at) if reopened_at else counts_from
    if last is None or last.finding != "absent" or last.seen_at < counts_from:
        at = clock(counts_from, situation.case.tenant_id)
        raise NotAllowedNow(f"Needs a look-up after {at} that finds nothing. Look up first.")


def _settle_not_applied(job: Job, operation: Operation, situation: Situation, deed: Deed) -> str:
    if deed.details["then"] == STOP:
        settling.settle_not_applied(
            job=job, operation=operation, summary=_signed(deed), actor=deed.actor, now=deed.now
        )
        return f"{operation.label} is settled as not applied. Nothing was sent."
    # Not by `settle_not_applied`: with nothing left to do it would end the job, and an ended job sends nothing.
    observe(
        job=job,
        operation=operation,
        kind="attested",
        finding="absent",
        proves=True,
        summary=_signed(deed),
        actor=deed.actor,
        now=situation.clock,
    )
    move(
        operation,
        OperationState.NOT_APPLIED,
        deed.now,
        next_step=NextStep.RESUBMIT.value,
        next_step_at=deed.now,
        fate_note=_signed(deed)[:500],
    )
    journal.record(
        job=job,
        event="operation.settled",
        actor=deed.actor,
        evidence={"operation": operation.label, "operation_id": operation.pk, "as": "not applied"},
    )
    beyond = needs_second(VerbName.RESUBMIT, situation)
    settling.order_resubmission(
        job=job, operation=operation, actor=deed.actor, now=deed.now, beyond_window=beyond
    )
    return f"{operation.label} is settled as not applied, and sent again with the same key."


def _signed(deed: Deed) -> str:
    second = f" and {deed.second.name}" if deed.second else ""
    return f"{deed.actor.name}{second}: {deed.reason}"
