"""A callback whose signature was looked at: kept as it came, and taken as evidence about the operation that it names.

It settles what is in doubt, contradicts what has ended, and never settles the same twice. While a send of ours is
open it is only kept: whoever closes that send joins both (`joining.joined_with_told`), so the order does not matter.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from access.refusals import Conflict, Refused
from access.roles import WORKER, Actor, ActorKind
from access.tenancy import acting
from dispatch import locks, outcomes, proofs
from dispatch.callback_terms import Callbacks, Stage
from dispatch.callbacks.reading import DIFFERS, Finding, Told, finding_of, read_callback
from dispatch.callbacks.signing import Message
from dispatch.contracts import Contract
from dispatch.deriving import derive_job
from dispatch.models import Callback, Observation, Operation, Submission
from dispatch.moving import observe
from dispatch.refusing import take_as_failed
from dispatch.rendering import latest_contract
from dispatch.states import WITHOUT_EFFECT, OperationState
from dispatch.texts import kept
from workflows.locks import lock_name
from workflows.models import Job

S = OperationState
KIND = "callback"
MOST_A_MINUTE = 600
MOST_OF_NOTHING = 1000
"""Callbacks of one receiver that named nothing here and are kept."""
PATIENCE_MS = 2000
LARGEST = 100_000
"""Bytes of one callback."""


class MessageIdReused(Conflict):
    """The same message id came with other bytes. One id a message; the first one stands."""


class TooManyCallbacks(Refused):
    """The receiver sends more than is taken in a minute. Nothing was kept; it may send it again."""


@dataclass(frozen=True, slots=True)
class Taken:
    """`matched`: it names an operation here. `repeated`: it had come before, and nothing more was done."""

    matched: bool
    repeated: bool = False


def take_callback(
    *, tenant_id: int, receiver_id: int, message: Message, body: bytes, terms: Callbacks, now: datetime
) -> Taken:
    """Keep a signed callback, once a message id, and settle what it proves (`operation.observed`).

    Locks the message's id → job → operation. A repeat changes nothing; one that named nothing is looked for again.
    Raises MessageIdReused, TooManyCallbacks.
    """
    digest, told = hashlib.sha256(body).hexdigest(), read_callback(body, terms)
    with acting(tenant_id, lock_timeout_ms=PATIENCE_MS):
        lock_name(KIND, tenant_id, f"{receiver_id}:{message.message_id}")
        known = _known(receiver_id, message.message_id)
        if known is not None and known[0] != digest:
            raise MessageIdReused(
                f"The message {message.message_id} came before with other bytes; a new message needs a new id."
            )
        if known is not None and known[1] is not None:
            return Taken(matched=True, repeated=True)
        operation_id = find_operation(receiver_id, told)
        if known is not None and (operation_id is None or _is_taken(operation_id, digest)):
            return Taken(matched=operation_id is not None, repeated=True)
        if known is None:
            _require_room(receiver_id, now)
        if operation_id is None:
            _keep_of_nothing(tenant_id, receiver_id, message, told, body, digest, now)
            return Taken(matched=False)
        job, operation = locks.lock_job_and_operation(operation_id)
        finding = finding_of(told, terms, sent=bytes(operation.proposed.body), record=operation.record)
        if known is None:
            row = _row(tenant_id, receiver_id, message, told, finding, body, digest, now)
            row.operation = operation
            row.save(force_insert=True)
        take_as_evidence(job, operation, told, finding, digest, now)
        return Taken(matched=True)


def take_what_came_before(job: Job, operation: Operation, now: datetime) -> None:
    """Callbacks that named the receiver's own id before we knew it: taken now. The caller holds the locks."""
    in_force = latest_contract(operation.receiver_id) if operation.receipt_id else None
    terms = Contract.of(in_force.terms).callbacks if in_force is not None else None
    if terms is None:
        return
    came = Callback.objects.filter(
        receiver=operation.receiver_id, receipt_id=operation.receipt_id, operation__isnull=True
    )
    for row in came.order_by("pk"):
        told = read_callback(row.body.encode(), terms)
        if not _is_taken(operation.pk, row.digest) and not told.key:
            finding = finding_of(told, terms, sent=bytes(operation.proposed.body), record=operation.record)
            take_as_evidence(job, operation, told, finding, row.digest, now)


def find_operation(receiver_id: int, told: Told) -> int | None:
    """The one operation of the receiver that a callback names, by our key or by the receiver's own id."""
    mine = Operation.objects.filter(receiver=receiver_id).values_list("pk", flat=True).order_by("-pk")
    if told.key:
        # A key goes on to a later operation where an earlier one had no effect: it speaks of the one that may have.
        by_key = mine.filter(operation_key=told.key)
        standing = by_key.exclude(state__in=WITHOUT_EFFECT).first()
        return standing or by_key.filter(state__in=WITHOUT_EFFECT).first()
    found = list(mine.filter(receipt_id=told.receipt_id)[:2]) if told.receipt_id else []
    return found[0] if len(found) == 1 else None


def take_as_evidence(
    job: Job, operation: Operation, told: Told, finding: Finding, digest: str, now: datetime
) -> None:
    """Keep what it says of a locked operation, and settle it where that is proven and no send of ours is open."""
    actor = Actor(ActorKind.RECEIVER, operation.receiver.title)
    observe(
        job=job, operation=operation, kind=KIND, finding=finding.name, proves=finding.proves, summary=finding.summary,
        actor=actor, now=locks.database_clock(), detail=finding.detail, receipt_id=told.receipt_id, digest=digest,
    )  # fmt: skip
    if Submission.objects.filter(operation=operation, closed_at__isnull=True).exists():
        return
    _settle(job, operation, told, finding, actor, now)
    if job.cancel_requested_at is not None:
        derive_job(
            job, WORKER, now
        )  # a receiver does not end what somebody asked to cancel; the machine does


def _settle(
    job: Job, operation: Operation, told: Told, finding: Finding, actor: Actor, now: datetime
) -> None:
    receipt = told.receipt_id or operation.receipt_id
    if operation.state == S.PREPARED and finding.name in (Stage.APPLIED, DIFFERS):
        # Nothing of it may have left from here. Sending it now could be a second effect.
        proofs.contradict(job, operation, finding.name, actor)
        why = "the receiver says that it has done this, and nothing here says that it was sent"
        outcomes.block(job=job, operation=operation, why=why, actor=actor, now=now)
    elif finding.name == Stage.APPLIED and operation.state != S.CONFLICTED:
        proofs.take_as_applied(job=job, operation=operation, receipt_id=receipt, actor=actor, now=now)
    elif finding.name == DIFFERS:
        proofs.take_as_differing(job=job, operation=operation, receipt_id=receipt, actor=actor, now=now)
    elif finding.name == Stage.FAILED:
        take_as_failed(job=job, operation=operation, why=finding.summary, actor=actor, now=now)


def _require_room(receiver_id: int, now: datetime) -> None:
    recent = Callback.objects.filter(receiver=receiver_id, received_at__gt=now - timedelta(minutes=1))
    if recent.count() >= MOST_A_MINUTE:
        raise TooManyCallbacks(f"{MOST_A_MINUTE} callbacks a minute are taken. Send it again in a minute.")


def _keep_of_nothing(
    tenant_id: int, receiver_id: int, message: Message, told: Told, body: bytes, digest: str, now: datetime
) -> None:
    if Callback.objects.filter(receiver=receiver_id, operation__isnull=True).count() < MOST_OF_NOTHING:
        why = told.problem or "it names nothing that was sent from here"
        finding = Finding(Stage.UNCLEAR.value, why)
        _row(tenant_id, receiver_id, message, told, finding, body, digest, now).save(force_insert=True)


def _known(receiver_id: int, message_id: str) -> tuple[str, int | None] | None:
    """The digest of the message that had this id, and the operation that it named."""
    rows = Callback.objects.filter(receiver=receiver_id, message_id=message_id)
    return rows.values_list("digest", "operation").first()


def _row(
    tenant_id: int, receiver_id: int, message: Message, told: Told, finding: Finding, body: bytes, digest: str,
    now: datetime,
) -> Callback:  # fmt: skip
    return Callback(
        tenant_id=tenant_id,
        receiver_id=receiver_id,
        message_id=message.message_id,
        operation_key=told.key,
        receipt_id=told.receipt_id,
        finding=finding.name,
        summary=finding.summary,
        body=kept(body.decode("utf-8", "replace")),
        digest=digest,
        sent_at=message.sent_at,
        received_at=now,
    )


def _is_taken(operation_id: int, digest: str) -> bool:
    return Observation.objects.filter(operation=operation_id, kind=KIND, digest=digest).exists()
