"""Endpoints: added, changed, given a new secret, disabled, enabled and tested, each journalled with the tenant."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from django.db import IntegrityError

from access import authority, tenant_journal
from access.addresses import AddressRefused, check_url
from access.refusals import Conflict, Unprocessable
from access.roles import Role
from access.tenancy import acting
from access.whereabouts import who_is
from outbox import events
from outbox.locks import lock_endpoint
from outbox.models import Endpoint
from outbox.secrets import SECRETS
from outbox.writing import Notice, write_to

LONGEST_GRACE = timedelta(days=30)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


class BadEndpoint(Unprocessable):
    """Its name, address, secret or events will not do; the message says why."""


class EndpointExists(Conflict):
    """There is an endpoint of this name already."""


class EndpointUnchanged(Conflict):
    """It is already as asked."""


@dataclass(frozen=True, slots=True)
class EndpointResult:
    """The endpoint that was written."""

    endpoint_id: int


def add_endpoint(
    *,
    tenant_id: int,
    name: str,
    url: str,
    secret_reference: str,
    chosen: Collection[str],
    person_id: int,
    now: datetime,
) -> EndpointResult:
    """Have another system told of the chosen events from now on. Admins only.

    Raises NotPermitted, BadEndpoint, EndpointExists.
    """
    if not _NAME.fullmatch(name):
        raise BadEndpoint("An endpoint is named in lower case letters, digits and hyphens.")
    with _refused_by_the_database(name, secret_reference), acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        _check(url, secret_reference, chosen, who_is(tenant_id, f"endpoint/{name}"))
        endpoint = Endpoint.objects.create(
            tenant_id=tenant_id, name=name, url=url, secret_reference=secret_reference,
            events=sorted(set(chosen)), created_at=now,
        )  # fmt: skip
        tenant_journal.record(event="endpoint.added", actor=actor, evidence=_as_it_is(endpoint))
        return EndpointResult(endpoint.pk)


def change_endpoint(
    *,
    tenant_id: int,
    endpoint_id: int,
    url: str,
    secret_reference: str,
    chosen: Collection[str],
    grace: timedelta,
    person_id: int,
    now: datetime,
) -> EndpointResult:
    """Change where an endpoint is, what it is told of, or its secret; the secret before signs too for `grace` more.

    What waits goes to the new address. Admins only; a repeat changes nothing. Locks the endpoint. Raises NotPermitted,
    BadEndpoint, NoSuchEndpoint.
    """
    if not timedelta(0) <= grace <= LONGEST_GRACE:
        raise BadEndpoint(f"The secret before can sign for at most {LONGEST_GRACE.days} days more.")
    with _refused_by_the_database("", secret_reference), acting(tenant_id):
        endpoint = lock_endpoint(endpoint_id)
        actor = authority.require(person_id, Role.ADMIN)
        _check(url, secret_reference, chosen, who_is(tenant_id, f"endpoint/{endpoint.name}"))
        before = _as_it_is(endpoint)
        if endpoint.secret_reference != secret_reference:
            endpoint.previous_reference = endpoint.secret_reference if grace else ""
            endpoint.previous_until = now + grace if grace else None
        endpoint.url, endpoint.secret_reference, endpoint.events = url, secret_reference, sorted(set(chosen))
        if _as_it_is(endpoint) == before:
            return EndpointResult(endpoint.pk)
        endpoint.save(
            update_fields=["url", "secret_reference", "previous_reference", "previous_until", "events"]
        )
        tenant_journal.record(event="endpoint.changed", actor=actor, evidence=_as_it_is(endpoint))
        return EndpointResult(endpoint.pk)


def disable_endpoint(
    *, tenant_id: int, endpoint_id: int, person_id: int, reason: str, now: datetime
) -> EndpointResult:
    """Tell an endpoint nothing more; what waits for it is given up. Admins only.

    Locks the endpoint. Raises NotPermitted, BadEndpoint (no reason), NoSuchEndpoint, EndpointUnchanged.
    """
    if not reason.strip() or "\x00" in reason:
        raise BadEndpoint("Say why it is told nothing more.")
    with acting(tenant_id):
        endpoint = lock_endpoint(endpoint_id)
        actor = authority.require(person_id, Role.ADMIN)
        if endpoint.disabled_at is not None:
            raise EndpointUnchanged(f"{endpoint.name} was disabled already by {endpoint.disabled_by}.")
        why = reason.strip()[:1000]
        Endpoint.objects.filter(pk=endpoint.pk).update(
            disabled_at=now, disabled_by=actor.name, disabled_reason=why
        )
        evidence = {"endpoint": endpoint.name, "reason": why}
        tenant_journal.record(event="endpoint.disabled", actor=actor, evidence=evidence)
        return EndpointResult(endpoint.pk)


def enable_endpoint(*, tenant_id: int, endpoint_id: int, person_id: int, now: datetime) -> EndpointResult:
    """Tell an endpoint again of what happens from now on. Admins only.

    Locks the endpoint. Raises NotPermitted, NoSuchEndpoint, EndpointUnchanged.
    """
    with acting(tenant_id):
        endpoint = lock_endpoint(endpoint_id)
        actor = authority.require(person_id, Role.ADMIN)
        if endpoint.disabled_at is None:
            raise EndpointUnchanged(f"{endpoint.name} is not disabled.")
        Endpoint.objects.filter(pk=endpoint.pk).update(disabled_at=None, disabled_by="", disabled_reason="")
        tenant_journal.record(event="endpoint.enabled", actor=actor, evidence={"endpoint": endpoint.name})
        return EndpointResult(endpoint.pk)


def send_test(*, tenant_id: int, endpoint_id: int, person_id: int, now: datetime) -> EndpointResult:
    """Send an endpoint a message that tells of nothing. Operators and admins; each call is another message.

    Raises NotPermitted, NoSuchEndpoint, EndpointUnchanged (it is disabled).
    """
    with acting(tenant_id):
        endpoint = lock_endpoint(endpoint_id)
        actor = authority.require(person_id, Role.ADMIN, Role.OPERATOR)
        if endpoint.disabled_at is not None:
            raise EndpointUnchanged(f"{endpoint.name} is disabled; enable it first.")
        tenant_journal.record(event=events.TEST_EVENT, actor=actor, evidence={"endpoint": endpoint.name})
        notice = Notice(
            event=events.TEST_EVENT,
            key=f"{events.TEST_EVENT}/{uuid4().hex}",
            title=f"A test of {endpoint.name}: nothing has happened",
            page="notifications",
        )
        write_to(notice, persons=[], endpoint_ids=[endpoint.pk], now=now)
        return EndpointResult(endpoint.pk)


@contextmanager
def _refused_by_the_database(name: str, secret_reference: str) -> Iterator[None]:
    """Around a transaction: what only the database can see, as a sentence."""
    try:
        yield
    except IntegrityError as refused:
        if "one_endpoint_a_name" in str(refused):
            raise EndpointExists(f"There is an endpoint {name} already.") from refused
        if "signs for another organisation" in str(refused):
            raise BadEndpoint(
                f"{secret_reference} signs for another organisation. Name a secret of your own."
            ) from refused
        raise


def _check(url: str, secret_reference: str, chosen: Collection[str], who: str) -> None:
    try:
        parts = check_url(url, who)
    except AddressRefused as refused:
        raise BadEndpoint(str(refused)) from refused
    if parts.fragment or len(url) > 2000:
        raise BadEndpoint("An endpoint's address has no fragment, and at most 2,000 characters.")
    if not SECRETS.allow(secret_reference):
        raise BadEndpoint(f"A secret is named as {SECRETS.forms}, never written here.")
    unknown = sorted(set(chosen) - set(events.declared()))
    if unknown or not chosen:
        raise BadEndpoint(f"Choose one or more of: {', '.join(events.declared())}.")


def _as_it_is(endpoint: Endpoint) -> dict[str, object]:
    until = endpoint.previous_until
    return {
        "endpoint": endpoint.name,
        "url": endpoint.url,
        "events": list(endpoint.events),
        "secret_reference": endpoint.secret_reference,
        "previous_until": until.isoformat() if until else "",
    }
