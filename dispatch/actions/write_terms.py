"""Writing a file of terms into an organisation: policies, receivers and contracts, each only where it is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from access import authority
from access.addresses import AddressRefused, check_url
from access.refusals import Unprocessable
from access.roles import Actor, Role
from access.tenancy import reading
from access.whereabouts import who_is
from approvals.facts import newest
from approvals.policies import BadPolicy, write_policy
from approvals.ruleset import RuleSet
from dispatch.actions.receivers import write_contract, write_receiver
from dispatch.connectors.registry import faults_of, schemes
from dispatch.models import Receiver
from dispatch.rendering import latest_contract
from dispatch.terms import ReceiverTerms, Terms


@dataclass(frozen=True, slots=True)
class Written:
    """What one name came to, as a sentence; `changed` is False where everything was there already."""

    sentence: str
    changed: bool


class UnusableTerms(Unprocessable):
    """Terms that say what this organisation cannot be given; nothing was written."""


def write_terms(
    *, tenant_id: int, terms: Terms, addresses: Mapping[str, str], person_id: int, now: datetime
) -> list[Written]:
    """Write policies and receivers, each in a transaction of its own; what is there already stays as it is.

    `addresses` stand in for the file's own, by receiver. Admins only. Everything is checked before anything is
    written; a repeat, also of one that was broken off, writes what is missing. Raises NotPermitted, UnusableTerms.
    """
    _check(tenant_id, terms, addresses)
    with reading(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
    written = [_policy(tenant_id, name, p, actor, now) for name, p in terms.policies.items()]
    for name, receiver in terms.receivers.items():
        placed = receiver.model_copy(update={"base_url": addresses.get(name, receiver.base_url)})
        written.append(_receiver(tenant_id, name, placed, person_id, now))
    return written


def _check(tenant_id: int, terms: Terms, addresses: Mapping[str, str]) -> None:
    for name in set(addresses) - set(terms.receivers):
        raise UnusableTerms(f"The file names no receiver {name}.")
    for name, receiver in terms.receivers.items():
        try:
            check_url(addresses.get(name, receiver.base_url), who_is(tenant_id, name), schemes())
        except AddressRefused as refused:
            raise UnusableTerms(f"receivers.{name}: {refused}") from refused
        if faults := faults_of(receiver.contract):
            raise UnusableTerms(f"receivers.{name}: {faults[0]}")


def _policy(tenant_id: int, name: str, rules: RuleSet, actor: Actor, now: datetime) -> Written:
    with reading(tenant_id):
        known = newest(name)
    if known is not None and known.end_reason:
        return Written(f"Policy {name}: {known.created_by} ended it, so it is left so.", changed=False)
    if known is not None and known.ruleset == rules:
        return Written(f"Policy {name}: revision {known.revision} says this already.", changed=False)
    try:
        made = write_policy(tenant_id=tenant_id, name=name, rules=rules, created_by=actor, now=now)
    except BadPolicy as wrong:
        raise UnusableTerms(f"policies.{name}: {wrong}") from wrong
    return Written(f"Policy {name}: revision {made.revision} written.", changed=True)


def _receiver(tenant_id: int, name: str, terms: ReceiverTerms, person_id: int, now: datetime) -> Written:
    before = _known(tenant_id, name)
    made = write_receiver(
        tenant_id=tenant_id,
        name=name,
        title=terms.title,
        base_url=terms.base_url,
        account=terms.account,
        secret_reference=terms.secret_reference,
        person_id=person_id,
        now=now,
    )
    version = write_contract(
        tenant_id=tenant_id,
        receiver_id=made.receiver_id,
        terms=terms.contract.model_dump(mode="json"),
        source=terms.source,
        person_id=person_id,
        now=now,
    ).version
    if before == (terms.title, terms.base_url, version):
        return Written(
            f"Receiver {name}: version {version} of its contract says this already.", changed=False
        )
    return Written(f"Receiver {name}: written, with version {version} of its contract.", changed=True)


def _known(tenant_id: int, name: str) -> tuple[str, str, int] | None:
    with reading(tenant_id):
        receiver = Receiver.objects.filter(name=name).first()
        contract = latest_contract(receiver.pk) if receiver is not None else None
    return (
        None
        if receiver is None or contract is None
        else (receiver.title, receiver.base_url, contract.version)
    )
