"""Before a check of a receiver: whether one may be, journalled before anything is sent."""

from __future__ import annotations

from dataclasses import dataclass

from access import authority, tenant_journal
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.switches import switches_of
from access.tenancy import acting, reading
from access.whereabouts import who_is
from dispatch.connectors.registry import connector
from dispatch.connectors.seam import Credentials
from dispatch.contracts import Contract
from dispatch.locks import NoSuchReceiver
from dispatch.models import Receiver
from dispatch.rendering import latest_contract
from dispatch.requests import Place
from dispatch.wire import NotBegun


class NoSandbox(Unprocessable):
    """Nothing says that the receiver is a sandbox, and a check changes something there."""


class NothingIsSent(Conflict):
    """The receiver is paused, the organisation revoked, or dispatch shut."""


@dataclass(frozen=True, slots=True)
class Checkable:
    """A receiver with its contract in force, and what signs its requests."""

    contract: Contract
    place: Place
    credentials: Credentials


def checkable(*, tenant_id: int, name: str, person_id: int, is_sandbox: bool) -> Checkable:
    """The receiver of this name, where it may be checked. Admins only; reads, and locks nothing.

    `is_sandbox`: whoever asks says so where its contract does not. Raises NoSuchReceiver, NotPermitted, NoSandbox,
    NothingIsSent, SecretMissing, NoSuchConnector.
    """
    with reading(tenant_id):
        authority.require(person_id, Role.ADMIN)
        receiver = Receiver.objects.filter(name=name).first()
        row = latest_contract(receiver.pk) if receiver is not None else None
        if receiver is None or row is None:
            known = ", ".join(Receiver.objects.order_by("name").values_list("name", flat=True)) or "none"
            raise NoSuchReceiver(f"There is no receiver {name} with a contract here. There are: {known}.")
        contract = Contract.of(row.terms)
        if not (contract.sandbox or is_sandbox):
            raise NoSandbox(
                f"A check changes something at {receiver.title}, and its contract does not say that it is a sandbox."
            )
        if why := _stopped(tenant_id, receiver):
            raise NothingIsSent(why)
        who = who_is(tenant_id, name)
    place = Place(receiver.name, receiver.base_url, receiver.account, row.version, who)
    credentials = connector(contract.connector).credentials(receiver.secret_reference, contract)
    return Checkable(contract, place, credentials.at(who))


def begin_check(
    *, tenant_id: int, place: Place, action: str, record: str, keys: list[str], person_id: int
) -> None:
    """Keep that a check is about to be sent, by whom and under which keys (`receiver.checked`). Raises NotPermitted."""
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        evidence = {
            "receiver": place.name, "version": place.contract_version, "action": action, "record": record, "keys": keys,
        }  # fmt: skip
        tenant_journal.record(event="receiver.checked", actor=actor, evidence=evidence)


def still_allowed(tenant_id: int, name: str) -> None:
    """Asked before each request's first byte. Raises NotBegun where somebody has stopped it meanwhile."""
    with reading(tenant_id):
        receiver = Receiver.objects.get(name=name)
        if why := _stopped(tenant_id, receiver):
            raise NotBegun(why)


def _stopped(tenant_id: int, receiver: Receiver) -> str:
    if receiver.paused_at is not None:
        return f"{receiver.title} is paused by {receiver.paused_by}. Nothing is sent."
    stops = switches_of(tenant_id)
    if stops.revocation is not None:
        return f"The organisation is revoked: {stops.revocation.reason} Nothing is sent."
    if stops.restored is not None and stops.restored.shut_at is not None:
        return "Dispatch is shut since the rows came out of a backup. Nothing is sent."
    return ""
