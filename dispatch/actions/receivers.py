"""Receivers and their contracts: written, paused and resumed by an admin, journalled in the tenant's own journal."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError
from django.db.models import Q
from pydantic import ValidationError

from access import authority, tenant_journal
from access.addresses import AddressRefused, check_url
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, Role
from access.tenancy import acting
from access.whereabouts import who_is
from dispatch.actions.prepare import ring_open
from dispatch.connectors.registry import faults_of, schemes
from dispatch.contracts import Contract
from dispatch.locks import lock_receiver
from dispatch.models import Operation, Receiver, ReceiverContract
from dispatch.proofs import MACHINE
from dispatch.secrets import RECEIVERS, check_reference
from dispatch.states import SETTLED
from workflows import machines
from workflows.locks import lock_job, lock_name

HASTENED_AT_ONCE = 500


class BadReceiver(Unprocessable):
    """The receiver's address or secret reference will not do; the message says why."""


class BadContract(Unprocessable):
    """The contract does not say what it must, or contradicts itself; the message names the first fault."""


class ContractWrittenMeanwhile(Conflict):
    """Somebody wrote another version since this one was begun."""


class PauseUnchanged(Conflict):
    """The receiver is already paused, or is not paused."""


@dataclass(frozen=True, slots=True)
class ReceiverResult:
    """The receiver that was written, and its contract's version where one was."""

    receiver_id: int
    version: int = 0


def write_receiver(
    *, tenant_id: int, name: str, title: str, base_url: str, person_id: int, now: datetime, account: str = "",
    secret_reference: str = "",
) -> ReceiverResult:  # fmt: skip
    """Add a receiver, or change the title and address of the one with this name. Admins only.

    A changed address voids what was frozen for the old one, at the check before its send. A repeat changes nothing.
    Raises NotPermitted, BadReceiver.
    """
    with _secrets_of_others(BadReceiver), acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        return keep_receiver(
            tenant_id=tenant_id, name=name, title=title, base_url=base_url, account=account,
            secret_reference=secret_reference, actor=actor,
        )  # fmt: skip


def keep_receiver(
    *, tenant_id: int, name: str, title: str, base_url: str, account: str, secret_reference: str, actor: Actor
) -> ReceiverResult:
    """The write of `write_receiver`, inside the caller's transaction and scope. Raises BadReceiver."""
    _check(base_url, secret_reference, who_is(tenant_id, name))
    lock_name("receiver", tenant_id, name)
    known = Receiver.objects.filter(name=name).first()
    if known is None:
        known = Receiver.objects.create(
            tenant_id=tenant_id, name=name, title=title, base_url=base_url, account=account,
            secret_reference=secret_reference,
        )  # fmt: skip
    else:
        receiver = lock_receiver(known.pk)
        if (receiver.account, receiver.secret_reference) != (account, secret_reference):
            raise BadReceiver(
                "The account and the secret of a receiver stay; write another receiver instead."
            )
        if (receiver.title, receiver.base_url) == (title, base_url):
            return ReceiverResult(receiver.pk)
        Receiver.objects.filter(pk=receiver.pk).update(title=title, base_url=base_url)
    evidence = {"receiver": name, "title": title, "base_url": base_url, "account": account}
    tenant_journal.record(event="receiver.written", actor=actor, evidence=evidence)
    return ReceiverResult(known.pk)


def write_contract(
    *, tenant_id: int, receiver_id: int, terms: dict[str, Any], source: str, person_id: int, now: datetime,
    reason: str = "", expected: int | None = None,
) -> ReceiverResult:  # fmt: skip
    """Add the next version of a receiver's contract. Admins only; the same terms again change nothing.

    What was frozen under an earlier version stays under it, except that windows use the stricter of both. `expected`:
    the version that it follows, 0 for the first. Raises NoSuchReceiver, NotPermitted, BadContract,
    ContractWrittenMeanwhile.
    """
    with _secrets_of_others(BadContract), acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        return keep_contract(
            receiver_id=receiver_id,
            terms=terms,
            source=source,
            actor=actor,
            now=now,
            reason=reason,
            expected=expected,
        )


def keep_contract(
    *, receiver_id: int, terms: dict[str, Any], source: str, actor: Actor, now: datetime, reason: str = "",
    expected: int | None = None,
) -> ReceiverResult:  # fmt: skip
    """The write of `write_contract`, inside the caller's transaction and scope. Locks the receiver."""
    try:
        contract = Contract.model_validate(terms)
    except ValidationError as invalid:
        first = invalid.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the contract"
        raise BadContract(f"{place}: {first['msg']}.") from invalid
    if faults := faults_of(contract):
        raise BadContract(faults[0])
    receiver = lock_receiver(receiver_id)
    kept = contract.model_dump(mode="json")
    kept["definite_not_applied_codes"] = sorted(kept["definite_not_applied_codes"])
    versions = ReceiverContract.objects.filter(receiver=receiver)
    last = versions.order_by("-version").first()
    if last is not None and _says(last.terms, contract):
        return ReceiverResult(receiver.pk, last.version)
    version = (last.version if last is not None else 0) + 1
    if expected is not None and expected != version - 1:
        raise ContractWrittenMeanwhile(f"Version {version - 1} of the contract was written meanwhile.")
    ReceiverContract.objects.create(
        tenant_id=receiver.tenant_id, receiver=receiver, version=version, terms=kept, reviewed_at=now,
        source=source[:500], written_by=actor.name[:200], reason=reason[:1000],
    )  # fmt: skip
    digest = hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()
    evidence = {"receiver": receiver.name, "version": version, "title": contract.title, "digest": digest}
    if reason:
        evidence["reason"] = reason
    tenant_journal.record(event="contract.written", actor=actor, evidence=evidence)
    return ReceiverResult(receiver.pk, version)


@contextmanager
def _secrets_of_others(refusal: type[Unprocessable]) -> Iterator[None]:
    """Around a transaction: that another organisation names a secret, which only the database can see, as a sentence."""
    try:
        yield
    except IntegrityError as refused:
        said = re.search(r"(\S+) belongs to another organisation", str(refused))
        if said is None:
            raise
        raise refusal(f"{said[1]} belongs to another organisation. Name a secret of your own.") from refused


def _says(terms: dict[str, Any], contract: Contract) -> bool:
    """Whether kept terms say the same: those of before a field came mean that field's default."""
    try:
        return Contract.model_validate(terms) == contract
    except ValidationError:
        return False  # kept before a rule that they break: what is written now replaces them


def pause_receiver(
    *, tenant_id: int, receiver_id: int, person_id: int, reason: str, now: datetime
) -> ReceiverResult:
    """Stop every send to a receiver; look-ups go on. Admins only. Raises NoSuchReceiver, NotPermitted, PauseUnchanged."""
    with acting(tenant_id):
        receiver = lock_receiver(receiver_id)
        actor = authority.require(person_id, Role.ADMIN)
        if receiver.paused_at is not None:
            raise PauseUnchanged(f"{receiver.title} is already paused by {receiver.paused_by}.")
        Receiver.objects.filter(pk=receiver.pk).update(
            paused_at=now, paused_by=actor.name, pause_reason=reason[:1000]
        )
        evidence = {"receiver": receiver.name, "reason": reason}
        tenant_journal.record(event="receiver.paused", actor=actor, evidence=evidence)
        return ReceiverResult(receiver.pk)


def resume_receiver(*, tenant_id: int, receiver_id: int, person_id: int, now: datetime) -> ReceiverResult:
    """Let sends go on, and ring for what waited. Admins only. Raises NoSuchReceiver, NotPermitted, PauseUnchanged.

    The pause is lifted in one transaction, and what waited is hastened after it (`hasten_sends`).
    """
    with acting(tenant_id):
        receiver = lock_receiver(receiver_id)
        actor = authority.require(person_id, Role.ADMIN)
        if receiver.paused_at is None:
            raise PauseUnchanged(f"{receiver.title} is not paused.")
        Receiver.objects.filter(pk=receiver.pk).update(paused_at=None, paused_by="", pause_reason="")
        evidence = {"receiver": receiver.name, "paused_by": receiver.paused_by}
        tenant_journal.record(event="receiver.resumed", actor=actor, evidence=evidence)
        waiting = sends_that_wait(receiver.pk, now)
    hasten_sends(tenant_id, waiting)
    return ReceiverResult(receiver.pk)


def sends_that_wait(receiver_id: int, now: datetime, **narrowed: Any) -> list[tuple[int, int]]:
    """Operations that have a step of their own to take at a receiver by now, with their jobs; `narrowed` by their fields."""
    due = Q(next_step_at__isnull=True) | Q(next_step_at__lte=now)
    waiting = Operation.objects.filter(due, receiver=receiver_id, **narrowed)
    return list(
        waiting.exclude(state__in=SETTLED).exclude(next_step="").order_by("pk").values_list("pk", "job_id")
    )


def hasten_sends(tenant_id: int, waiting: Sequence[tuple[int, int]]) -> None:
    """Have them looked at now, in transactions of their own, after what they waited for was committed.

    In batches; where somebody is at an item just then, its job is rung by itself. A crash between leaves items that look
    again within a minute.
    """
    missed: set[int] = set()
    for start in range(0, len(waiting), HASTENED_AT_ONCE):
        theirs = dict(waiting[start : start + HASTENED_AT_ONCE])
        with acting(tenant_id):
            hastened = machines.hasten(machine=MACHINE, operations=theirs)
        missed.update(job for pk, job in theirs.items() if pk not in hastened)
    for job_id in sorted(missed):
        with acting(tenant_id):
            ring_open(lock_job(job_id))


def _check(base_url: str, secret_reference: str, who: str) -> None:
    try:
        parts = check_url(base_url, who, schemes())
    except AddressRefused as refused:
        raise BadReceiver(str(refused)) from refused
    if parts.query or parts.fragment:
        raise BadReceiver("A receiver's address has no query and no fragment.")
    if not check_reference(secret_reference):
        raise BadReceiver(f"A secret is named as {RECEIVERS.forms}, never written here.")
