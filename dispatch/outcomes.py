"""Closing submissions and settling what follows: the operation as their join, its next step, the job.

Each function runs in its caller's transaction under the locks of the job and its operations. Repeating one finds the
submission closed, and keeps what was seen as a late answer.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any

from access.roles import Actor
from access.statements import Select, Update, Values
from approvals.blocking import block_of
from dispatch import recovery, writing
from dispatch.answers import answer_of
from dispatch.classification import DEFINITELY_NOTHING, Outcome, Reading
from dispatch.contracts import Contract
from dispatch.deriving import derive_job
from dispatch.in_part import is_done_in_part
from dispatch.joining import joined, joined_with_told
from dispatch.models import Observation, Operation, Submission
from dispatch.moving import move, observe, plan
from dispatch.proofs import MACHINE as MACHINE
from dispatch.proofs import ring_next, stop_dependents
from dispatch.rendering import latest_contract
from dispatch.states import NextStep, OperationState
from dispatch.wire import Exchange
from workflows import journal
from workflows.models import Job

POSSIBLE_DUPLICATE = (
    "applied, but beyond the time in which the key is recognised: it may be the second effect"
)
S = OperationState


def close_submission(
    *, job: Job, operation: Operation, submission: Submission, reading: Reading, seen: Exchange | None,
    actor: Actor, now: datetime,
) -> None:  # fmt: skip
    """Write how an open submission ended, what proves it, and what follows. The submission is locked and open."""
    reading = _perhaps_twice(operation, submission, reading, seen)
    sent = writing.fields_of(operation, seen)
    answer = answer_of(seen)
    _CLOSE(
        submission.pk,
        closed_at=now,
        outcome=reading.outcome.value,
        fault=reading.fault[:300],
        status=answer.status,
        response_headers=answer.headers,
        response_body=answer.body,
        response_digest=answer.digest,
        receipt_id=reading.receipt_id,
        **sent,
    )
    journal.record(
        job=job,
        event="submission.closed",
        actor=actor,
        evidence={
            "operation": operation.label,
            "submission": submission.number,
            "outcome": reading.outcome.value,
            "status": answer.status,
            "fault": reading.fault,
            "response_digest": answer.digest,
            "sent_digest": sent.get("sent_digest", ""),
        },
    )
    writing.tell(job, operation, submission, str(sent.get("sent_differs", "")), actor)
    every = _SUBMISSIONS.all(operation.pk)
    _keep_evidence(job, operation, submission, reading, actor, now)
    marks = _marks(operation, every)
    settle(job=job, operation=operation, actor=actor, now=now, reading=reading, every=every, marks=marks)


def settle(
    *, job: Job, operation: Operation, actor: Actor, now: datetime, reading: Reading | None = None,
    every: Sequence[Submission] | None = None, marks: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Set the operation to the join of its submissions, plan its next step, and derive the job.

    `every`: all of the submissions; `marks`: columns that follow from their marks, written together with the state.
    """
    marks = marks or {}
    for name, value in marks.items():
        setattr(operation, name, value)
    submissions = counting(operation, every)
    state = joined([*(s.outcome for s in submissions), *_unknown_to_us(operation)])
    told = _told_meanwhile(operation, submissions)
    if told:
        once = is_one_effect(operation, submissions)
        state = joined_with_told(state, [finding for finding, _ in told], one_effect=once)
    if state is S.UNKNOWN:
        step = decide(job, operation, submissions, now, reading)
        why = step.why[:500]
        move(operation, state, now, next_step=step.kind.value, next_step_at=step.at, fate_note=why, **marks)
    elif state is S.PREPARED:
        _prepare_again(operation, submissions, reading, marks, now)
        if job.cancel_requested_at is not None:
            # The cancel came while this send was being made, and stopped it before its first byte.
            move(operation, S.WITHDRAWN, now, next_step="", next_step_at=None)
    elif state is S.SUBMITTED:
        _await_confirmation(operation, submissions, marks, now)
    else:
        receipt = _receipt(submissions, told)
        note = f"it told meanwhile: {told[-1][0]}" if told else reading.fault[:500] if reading else ""
        ended = {"receipt_id": receipt, "fate_note": note}
        move(operation, state, now, next_step="", next_step_at=None, **ended, **marks)
    _tell(job, operation, submissions, reading, actor)
    if state is S.REFUSED:
        stop_dependents(job, operation)
    derive_job(job, actor, now)
    if state is S.CONFIRMED:
        ring_next(job, operation)


def counting(operation: Operation, every: Sequence[Submission] | None = None) -> list[Submission]:
    """The closed submissions that still say something: those after the last proof of absence or reopening, oldest first."""
    proof = _PROOF.first(operation.pk)
    every = _SUBMISSIONS.all(operation.pk) if every is None else every
    closed = [s for s in every if s.closed_at is not None]
    ends = [at for at in (None if proof is None else proof[0], operation.reopened_at) if at is not None]
    return [s for s in closed if s.opened_at > max(ends)] if ends else closed


def _unknown_to_us(operation: Operation) -> list[str]:
    """What sends count as that the backup knew nothing of, or before a reopening, until a proof of absence after that."""
    doubted = [at for at in (operation.quarantined_at, operation.reopened_at) if at is not None]
    if not doubted:
        return []
    proof = _PROOF.first(operation.pk)
    return [] if proof is not None and proof[0] > max(doubted) else [Outcome.UNKNOWN.value]


def _told_meanwhile(operation: Operation, submissions: Sequence[Submission]) -> list[tuple[str, str]]:
    """What callbacks and look-ups have proven since the last send was opened, each finding with its receipt."""
    return [(f, r) for f, r in _TOLD.all(operation.pk, submissions[-1].opened_at)] if submissions else []


def is_one_effect(operation: Operation, submissions: Sequence[Submission]) -> bool:
    """Whether all sends were one request to the receiver: what it says of one it says of all."""
    marked = [s for s in submissions if s.may_have_been_sent_at is not None]
    if len(marked) <= 1 and operation.quarantined_at is None:
        return True
    by_order = any(s.permit == "order" for s in marked)
    return Contract.of(operation.contract.terms).has_window and not by_order


def _receipt(submissions: Sequence[Submission], told: Sequence[tuple[str, str]]) -> str:
    return next((r for r in (*(s.receipt_id for s in submissions), *(r for _, r in told)) if r), "")


def quiet_from(operation: Operation, submissions: Sequence[Submission]) -> datetime | None:
    """From when no byte of a send leaves any more: of these, and of those that a backup may know nothing of. None: of none.

    One that began in time may take longer, until its sender closed it. Where nobody saw it end its sender may have lived
    on: frozen, or cut off from the database.
    """
    timeouts = Contract.of(operation.contract.terms).timeouts
    ends = []
    for s in submissions:
        unseen = s.may_have_been_sent_at is not None and not s.sent_head
        by = s.send_deadline_at + timeouts.longest if unseen else s.send_deadline_at
        ends.append(max(by, s.closed_at or by))
    if operation.quarantined_at is not None:
        ends.append(operation.quarantined_at + timedelta(seconds=timeouts.send_window))
    return max(ends, default=None)


def decide(
    job: Job,
    operation: Operation,
    submissions: list[Submission],
    now: datetime,
    reading: Reading | None = None,
) -> recovery.Step:
    """The next automatic step for an unknown operation, by the contract it was frozen under and the one in force."""
    contract = Contract.of(operation.contract.terms)
    last = submissions[-1] if submissions else None
    facts = recovery.Facts(
        now=now,
        since=(last.closed_at if last else None) or now,
        quiet_at=quiet_from(operation, submissions) or now,
        lookups=operation.lookups,
        last_lookup_at=_last_lookup_at(operation),
        resubmissions=operation.automatic_resubmissions,
        in_progress=recovery.in_a_row([s.outcome for s in submissions], Outcome.IN_PROGRESS),
        futile=recovery.in_a_row([s.outcome for s in submissions], *DEFINITELY_NOTHING),
        safe_until=operation.resubmit_safe_until,
        confirm_by=confirm_by(operation, submissions, contract),
        slow=last is not None and ("in time" in last.fault or last.status == 504),
        no_more_sends=_no_more_sends(job, operation, submissions),
        stored_error=bool(submissions) and submissions[-1].status == 500,
        retry_after=reading.retry_after if reading else None,
    )
    return recovery.decide(facts, contract)


def confirm_by(
    operation: Operation, submissions: Sequence[Submission], contract: Contract
) -> datetime | None:
    """Until when what the receiver has accepted may still be confirmed; None where it accepted nothing so."""
    accepted = [s.closed_at for s in submissions if s.outcome == Outcome.PENDING and s.closed_at is not None]
    heard = heard_pending(operation, submissions)
    if contract.confirmation != "later" or not (accepted or heard):
        return None
    first = accepted[-1] if accepted else heard
    return first + timedelta(seconds=contract.confirmation_within) if first is not None else None


def heard_pending(operation: Operation, submissions: Sequence[Submission]) -> datetime | None:
    """When the receiver first told, since the last send was opened, that it has the operation and is not done yet."""
    found = _PENDING.first(operation.pk, submissions[-1].opened_at) if submissions else None
    return None if found is None else found[0]


def is_overdue(operation: Operation) -> bool:
    """Whether all that is known of an unknown operation is that the receiver has accepted it, and never confirmed."""
    outcomes = [s.outcome for s in counting(operation)]
    return joined([*outcomes, *_unknown_to_us(operation)]) is S.SUBMITTED


def _prepare_again(
    operation: Operation,
    submissions: list[Submission],
    reading: Reading | None,
    marks: Mapping[str, Any],
    now: datetime,
) -> None:
    note = reading.fault[:500] if reading else ""
    if reading is not None and reading.blocked:
        move(operation, S.PREPARED, now, next_step="blocked", next_step_at=None, fate_note=note, **marks)
        return
    failures = sum(s.outcome in DEFINITELY_NOTHING for s in submissions)
    asked, share = reading.retry_after if reading else None, random.random()  # noqa: S311 - spreads the load
    wait = recovery.backoff(failures, share=share, asked=asked)
    move(operation, S.PREPARED, now, next_step="send", next_step_at=now + wait, fate_note=note, **marks)


def _await_confirmation(
    operation: Operation, submissions: Sequence[Submission], marks: Mapping[str, Any], now: datetime
) -> None:
    contract = Contract.of(operation.contract.terms)
    # By its own id a receiver may name it in a callback.
    marks = {**marks, "receipt_id": _receipt(submissions, ())}
    if contract.lookup is not None:
        at = now + timedelta(seconds=contract.lookup.wait(0))
        move(operation, S.SUBMITTED, now, next_step="look up", next_step_at=at, **marks)
    elif contract.confirmation == "later":
        at = now + timedelta(seconds=contract.confirmation_within)
        move(operation, S.SUBMITTED, now, next_step="", next_step_at=at, **marks)
    else:
        note = "it was accepted, but this receiver never says what became of it"
        move(operation, S.UNKNOWN, now, next_step="", next_step_at=None, fate_note=note, **marks)


def _marks(operation: Operation, every: Sequence[Submission]) -> dict[str, Any]:
    """What an operation keeps of its submissions: the first mark, the window, how much of it is used."""
    marked = [s for s in every if s.may_have_been_sent_at is not None]
    futile = {*DEFINITELY_NOTHING, Outcome.IN_PROGRESS}
    again = [s for s in marked if s.resubmission and s.permit != "order" and s.outcome not in futile]
    first = min((s.may_have_been_sent_at for s in marked if s.may_have_been_sent_at), default=None)
    if first is None:
        return {}
    if operation.quarantined_at is not None and operation.first_may_have_been_sent_at is not None:
        first = min(first, operation.first_may_have_been_sent_at)
    return {
        "first_may_have_been_sent_at": first,
        "resubmit_safe_until": safe_until(operation, first),
        "automatic_resubmissions": len(again),
    }


def safe_until(operation: Operation, first: datetime) -> datetime | None:
    """The stricter of the contract at the first send and the one in force now."""
    until = [contract.resubmit_safe_until(first) for contract in _both_contracts(operation)]
    return None if None in until else min(at for at in until if at is not None)


def renew_window(operation: Operation) -> None:
    """Take the window of a locked operation down to what the contract in force allows: it may have been put right since."""
    first, known = operation.first_may_have_been_sent_at, operation.resubmit_safe_until
    if first is None or known is None:
        return
    until = safe_until(operation, first)
    if until is None or until < known:
        plan(operation, NextStep(operation.next_step), operation.next_step_at, resubmit_safe_until=until)


def absence_counts_from(operation: Operation, quiet_at: datetime) -> datetime | None:
    """From when finding nothing proves that nothing was applied, by the stricter of both contracts; None: never."""
    counts = [contract.absence_counts_from(quiet_at) for contract in _both_contracts(operation)]
    return None if None in counts else max(at for at in counts if at is not None)


def _both_contracts(operation: Operation) -> tuple[Contract, Contract]:
    frozen = Contract.of(operation.contract.terms)
    in_force = latest_contract(operation.receiver_id)
    return frozen, Contract.of(in_force.terms) if in_force is not None else frozen


def _perhaps_twice(
    operation: Operation, submission: Submission, reading: Reading, seen: Exchange | None
) -> Reading:
    """A success beyond the receiver's window after an unknown send may be a second effect: never confirmed by itself."""
    if submission.permit != "order" or reading.outcome is not Outcome.APPLIED:
        return reading
    header = Contract.of(operation.contract.terms).replay_header.lower()
    replayed = bool(header) and seen is not None and header in {k.lower() for k in seen.headers}
    if replayed or reading.replayed or not any(s.outcome == Outcome.UNKNOWN for s in counting(operation)):
        return reading
    return replace(reading, outcome=Outcome.CONFLICTED, fault=POSSIBLE_DUPLICATE)


def _keep_evidence(
    job: Job, operation: Operation, submission: Submission, reading: Reading, actor: Actor, now: datetime
) -> None:
    if reading.outcome not in (Outcome.APPLIED, Outcome.CONFLICTED):
        return
    applied = reading.outcome is Outcome.APPLIED
    observe(
        job=job, operation=operation, kind="answer", finding="applied" if applied else "differs", proves=applied,
        summary=f"submission {submission.number}: {reading.fault}", actor=actor, now=now,
        detail=json.dumps([asdict(d) for d in reading.differs]) if reading.differs else "",
        receipt_id=reading.receipt_id,
    )  # fmt: skip


def block(*, job: Job, operation: Operation, why: str, actor: Actor, now: datetime) -> None:
    """Stop sending until a person has put right what stands in the way (`send.blocked`)."""
    plan(operation, NextStep.BLOCKED, None, fate_note=why[:500])
    evidence = {"operation": operation.label, "operation_id": operation.pk, "why": why}
    journal.record(job=job, event="send.blocked", actor=actor, evidence=evidence)
    derive_job(job, actor, now)


def _tell(
    job: Job, operation: Operation, submissions: Sequence[Submission], reading: Reading | None, actor: Actor
) -> None:
    """Journal what needs a person beside the operation's own state."""
    if reading is None:
        return
    event = ""
    more: dict[str, object] = {}
    if reading.outcome is Outcome.KEY_MISMATCH:
        event = "operation.key_mismatch"
        more = _fingerprints(submissions)
    elif reading.fault == POSSIBLE_DUPLICATE:
        event = "operation.possible_duplicate"
    elif reading.blocked:
        event = "send.blocked"
    if event:
        evidence = {"operation": operation.label, "operation_id": operation.pk, "why": reading.fault, **more}
        journal.record(job=job, event=event, actor=actor, evidence=evidence)


def _fingerprints(submissions: Sequence[Submission]) -> dict[str, object]:
    """Of the bytes that left each time under the key, and of the answer that says that they were others."""
    sent = [s.sent_digest or s.body_digest for s in submissions if s.may_have_been_sent_at is not None]
    return {"sent": sent, "answered": submissions[-1].response_digest}


def _no_more_sends(job: Job, operation: Operation, submissions: list[Submission]) -> bool:
    if job.cancel_requested_at is not None or operation.reopened_at is not None:
        return True
    if is_never_made_again(submissions) or is_done_in_part(operation):
        return True
    if block_of(operation.proposed.proposal.recipient) is not None:
        return True
    last = submissions[-1] if submissions else None
    if last is None:
        return False
    # A 500 again under the same key is the stored answer: sending on would repeat it for ever.
    stored = last.resubmission and last.status == 500
    if heard_pending(operation, submissions) is not None:
        return True  # the receiver has it: a second one could only be a second effect
    return last.outcome == Outcome.PENDING or stored


def is_never_made_again(submissions: Sequence[Submission]) -> bool:
    """Whether these sends ended so that no machine makes the request again, not even after a proof that nothing was done.

    What left, or what is held under its key, is not what was approved: a fault of ours. Where a redirect leads nobody has
    approved, and asking the same address again would be answered the same.
    """
    faults = any(s.outcome == Outcome.KEY_MISMATCH or s.sent_differs for s in submissions)
    return faults or (bool(submissions) and 300 <= (submissions[-1].status or 0) < 400)


def _last_lookup_at(operation: Operation) -> datetime | None:
    seen = Observation.objects.filter(operation=operation, kind="lookup").order_by("-seen_at").first()
    return seen.seen_at if seen is not None else None


# It is locked and open, and the database refuses to close one twice. Asked for here, that it is open would have the server
# walk the small index of open ones, past each that was closed since the last vacuum.
_CLOSE = Update(lambda submission: Submission.objects.filter(pk=submission))
_SUBMISSIONS = Select(lambda operation: Submission.objects.filter(operation=operation).order_by("number"))
_PROOF = Values(
    lambda operation: (
        Observation.objects.filter(operation=operation, finding="absent", proves=True)
        .order_by("-seen_at")
        .values_list("seen_at")[:1]
    )
)
_TOLD = Values(
    lambda operation, since: Observation.objects.filter(
        operation=operation, kind__in=("callback", "lookup"), proves=True, seen_at__gte=since
    ).values_list("finding", "receipt_id")
)
_PENDING = Values(
    lambda operation, since: (
        Observation.objects.filter(
            operation=operation, kind__in=("callback", "lookup"), finding="pending", seen_at__gte=since
        )
        .order_by("seen_at")
        .values_list("seen_at")[:1]
    )
)
