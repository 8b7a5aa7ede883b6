"""What allows a send, and what is looked at before it: this room's checks, the approval's, and those of rooms above."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from access.statements import Asked, Values
from access.switches import Switches
from approvals.document import disagreements
from approvals.models import Proposal
from approvals.standing import CheckResult, Effect, approval_still_holds, recipient_is_open
from approvals.wording import clock, count
from dispatch.deriving import current
from dispatch.looking import Looked, SourceSeen, moved_sentence, strangely_moved
from dispatch.models import Operation
from dispatch.rendering import same_place
from dispatch.states import MAY_STAND, OperationState
from workflows.models import Job
from workflows.states import JobState

S = OperationState


def checks_before(
    job: Job,
    proposal: Proposal,
    operation: Operation,
    *,
    permit: str,
    waits_for: list[CheckResult],
    looked: Looked,
    now: datetime,
) -> list[CheckResult]:
    """Every check before a send, in the order of the screen. Reads; the caller holds job, proposal and operation.

    `waits_for`: what `what_it_waits_for` has just found. The resubmission of an unknown operation asks for its bytes,
    its window, hard policy and no cancel, and no more.
    """
    checks = [*own_checks(proposal, operation, permit=permit, now=now), *waits_for]
    if permit != "approval":
        return [*checks, recipient_is_open(proposal)]
    # The first send looks at all bytes that were approved, each later one at its own.
    only = None if job.state == JobState.READY_TO_COMMIT else operation.proposed_id
    checks += approval_still_holds(proposal, only=only)
    return [*checks, _versions(job, looked), *_objections(looked), _earlier_sends(job)]


def results(checks: Sequence[CheckResult]) -> list[dict[str, object]]:
    """What every check looked at and found, as it is kept with a submission or in the journal."""
    return [{"name": c.name, "ok": c.ok, "sentence": c.sentence} for c in checks]


def permit_of(operation: Operation) -> str:
    """What allows this send: the approval, or for an unknown operation the receiver's window or an order beyond it.

    What was proven not to have been applied needs the approval again, whoever has ordered it.
    """
    if operation.state == S.UNKNOWN:
        return "order" if operation.ordered_by else "window"
    return "approval"


def what_it_waits_for(job: Job, operation: Operation, switches: Switches) -> list[CheckResult]:
    """What stops a send without any fault of the proposal: it waits until somebody lifts it. Hard policy, and a cancel."""
    return [_receiver(job, operation), _organisation(job, switches), _no_cancel(job)]


def own_checks(proposal: Proposal, operation: Operation, *, permit: str, now: datetime) -> list[CheckResult]:
    """This room's checks on one operation: its bytes, its target and, for a resubmission, the window."""
    checks = [_bytes(proposal, operation, permit), _target(operation)]
    return [*checks, _window(operation, now)] if permit == "window" else checks


def _bytes(proposal: Proposal, operation: Operation, permit: str) -> CheckResult:
    """A resubmission is compared with the signed document here; what the approval permits, among the approval's checks."""
    body, approved = bytes(operation.proposed.body), operation.proposed.body_digest
    found = hashlib.sha256(body).hexdigest()
    if found != approved:
        why = f"The bytes are not those approved: their digest is {found[:12]}…, not {approved[:12]}…."
        return _check("Bytes", False, "", why)
    if not _is_as_proposed(operation):
        return _check("Bytes", False, "", "The bytes are not those approved: the operation names others.")
    if permit != "approval" and disagreements(proposal, [operation.proposed], among=True):
        return _check("Bytes", False, "", "The bytes are not those approved: the signed document has others.")
    size = count(len(body), "byte", "bytes")
    return _check("Bytes", True, f"The digest of the {size} is {found[:12]}…, as approved.")


def _target(operation: Operation) -> CheckResult:
    receiver = operation.receiver
    return _check(
        "Target",
        same_place(receiver.base_url, operation.proposed.target),
        f"{receiver.title} is where it was: {receiver.base_url}.",
        f"{receiver.title} has another address now: {receiver.base_url}.",
    )


def _window(operation: Operation, now: datetime) -> CheckResult:
    title, until = operation.receiver.title, operation.resubmit_safe_until
    if until is None:
        return _check(
            "Window", False, "", f"The same key is no longer safe: {title} promises no time for it."
        )
    at = clock(until, operation.tenant_id)
    return _check(
        "Window",
        now < until,
        f"{title} recognises this key until {at}.",
        f"The same key is no longer safe: {title} recognised it until {at}.",
    )


def _is_as_proposed(operation: Operation) -> bool:
    """Whether the operation's own row repeats what was frozen: what a look-up asks for, and under which contract."""
    proposed = operation.proposed
    return (
        operation.operation_key,
        operation.account,
        operation.record,
        operation.ordinal,
        operation.receiver.name,
        operation.contract.version,
        operation.contract.receiver_id,
    ) == (
        proposed.operation_key,
        proposed.account,
        proposed.record,
        proposed.ordinal,
        proposed.receiver,
        proposed.contract_version,
        operation.receiver_id,
    )


@dataclass(frozen=True, slots=True)
class Stop:
    """What a room above knows that stops every send of a workflow to a receiver, until somebody lifts it.

    `asked`: the one statement that `why_not` runs, to be asked ahead. `why_not`: a sentence, or "".
    """

    asked: Callable[[Job, Operation], Asked]
    why_not: Callable[[Job, Operation], str]


_stops: list[Stop] = []


def stops_sending(stop: Stop) -> None:
    """Have a room above stop sends. Whatever stops here holds the mark back too (`marker.holds_back`)."""
    _stops.append(stop)


def asked_of_stops(job: Job, operation: Operation) -> list[Asked]:
    """What `what_stops_the_workflow` is going to ask."""
    return [stop.asked(job, operation) for stop in _stops]


def what_stops_the_workflow(job: Job, operation: Operation) -> str:
    """A sentence where nothing of the job's workflow is sent to the receiver for now, or ""."""
    return next((said for stop in _stops if (said := stop.why_not(job, operation))), "")


def _receiver(job: Job, operation: Operation) -> CheckResult:
    receiver = operation.receiver
    if receiver.paused_at is not None:
        said = f"{receiver.title} is paused by {receiver.paused_by}."
    else:
        said = what_stops_the_workflow(job, operation)
    return _check("Receiver", not said, f"{receiver.title} is not paused.", said, Effect.WAIT)


def _organisation(job: Job, switches: Switches) -> CheckResult:
    stops = what_stops_the_organisation(job.tenant_id, switches)
    return _check("Organisation", not stops, "The organisation is not revoked.", stops, Effect.WAIT)


def what_stops_the_organisation(tenant_id: int, switches: Switches) -> str:
    """A sentence where nothing at all is sent for it, or ""."""
    if switches.revocation is not None:
        return f"The organisation is revoked: {switches.revocation.reason}"
    if switches.restored is not None and switches.restored.shut_at is not None:
        until = clock(switches.restored.known_until, tenant_id)
        return f"Dispatch is shut: this was put back from a backup that ends at {until}."
    return ""


def _no_cancel(job: Job) -> CheckResult:
    return _check(
        "Cancel",
        job.cancel_requested_at is None,
        "Nobody asked to cancel it.",
        f"{job.cancel_requested_by} asked to cancel it.",
        Effect.WAIT,
    )


def _versions(job: Job, looked: Looked) -> CheckResult:
    """Whether each source record still has the version that was frozen. What this proposal wrote itself may have moved."""
    if looked.sources is None:
        return _check("Record versions", True, "This workflow cannot say what version a source has now.")
    if not looked.sources:
        return _check("Record versions", True, "It was made from no named source.")
    own = {record for (record,) in _WRITTEN.all(job.pk)} if strangely_moved(looked, ()) else set()
    if moved := strangely_moved(looked, own):
        return _check("Record versions", False, "", " ".join(map(moved_sentence, moved)))
    return _check("Record versions", True, " ".join(_stayed(s, s.name in own) for s in looked.sources))


def _stayed(source: SourceSeen, own: bool) -> str:
    if source.present is None:
        return f"{source.name}: nobody can say its version now; version {source.frozen} was approved."
    if own and source.present != source.frozen:
        return f"{source.name} is at version {source.present}, after a send of this proposal."
    return f"{source.name} is still at version {source.frozen}."


def _objections(looked: Looked) -> list[CheckResult]:
    if looked.objections is None:
        return [_check("Recheck", True, "This workflow looks at nothing more before a send.")]
    if not looked.objections:
        return [_check("Recheck", True, "The workflow looked again and has no objection.")]
    return [_check("Recheck", False, "", sentence) for sentence in looked.objections]


ObjectsToSending = Callable[[Job], str]
_objects: list[ObjectsToSending] = []


def objects_to_sending(objection: ObjectsToSending) -> None:
    """Have a room above say what it knows of the job's earlier proposals that forbids a first send: a sentence, or ""."""
    _objects.append(objection)


def _earlier_sends(job: Job) -> CheckResult:
    said = next((said for objection in _objects if (said := objection(job))), "")
    return _check("Earlier sends", not said, "Nothing of an earlier proposal stands.", said)


def _check(name: str, ok: bool, holds: str, fails: str = "", effect: Effect = Effect.VOID) -> CheckResult:
    return CheckResult(name, ok, holds if ok else fails, Effect.NONE if ok else effect)


_WRITTEN = Values(lambda job: current(job).filter(state__in=MAY_STAND).values_list("record"))
