"""Event sources: added, given a new secret and ended by an admin; and events that will not be needed, discarded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from access import authority, tenant_journal
from access.refusals import Conflict, NotFound, Unprocessable
from access.roles import Role
from access.tenancy import acting
from workflows.expectations import digest_of
from workflows.locks import lock_source, lock_unused_events
from workflows.models import EventEnd, EventSource, ExternalEvent
from workflows.sources import SECRETS

LONGEST_GRACE = timedelta(days=30)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


class BadSource(Unprocessable):
    """The name or the reference to its secret will not do; the message says why."""


class SourceExists(Conflict):
    """There is a source of this name, or it is already as asked."""


class NoSuchSource(NotFound):
    """There is no such source in this tenant, or it has ended."""


class NoSuchEvent(NotFound):
    """There is no such event in this tenant, or it is not kept unused any more."""


@dataclass(frozen=True, slots=True)
class SourceResult:
    """The source that was written."""

    source_id: int


def add_source(
    *, tenant_id: int, name: str, secret_reference: str, person_id: int, now: datetime
) -> SourceResult:
    """Let a system outside send signed events. Admins only. Raises NotPermitted, BadSource, SourceExists."""
    if not _NAME.fullmatch(name):
        raise BadSource(
            "A source is named in lower case letters, digits and hyphens: it stands in an address."
        )
    _check(secret_reference)
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        source, made = EventSource.objects.get_or_create(
            tenant_id=tenant_id, name=name, defaults={"secret_reference": secret_reference, "created_at": now}
        )
        if not made:
            ended = " and has ended; give the new one another name" if source.ended_at else ""
            raise SourceExists(f"There is a source {name} already{ended}.")
        evidence = {"source": name, "secret_reference": secret_reference}
        tenant_journal.record(event="source.added", actor=actor, evidence=evidence)
        return SourceResult(source.pk)


def rotate_source(
    *, tenant_id: int, name: str, secret_reference: str, grace: timedelta, person_id: int, now: datetime
) -> SourceResult:
    """Have a source's signatures checked with another secret from now on; the one before holds for `grace` more.

    Admins only. Locks the source. Raises NotPermitted, BadSource, NoSuchSource, SourceExists (it is that one already).
    """
    _check(secret_reference)
    if not timedelta(0) <= grace <= LONGEST_GRACE:
        raise BadSource(f"The secret before can hold for at most {LONGEST_GRACE.days} days more.")
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        source = _lock(name)
        if source.secret_reference == secret_reference:
            raise SourceExists(
                f"{name} has this reference already. To change the secret behind it, put the new one there."
            )
        EventSource.objects.filter(pk=source.pk).update(
            secret_reference=secret_reference,
            previous_reference=source.secret_reference if grace else "",
            previous_until=now + grace if grace else None,
            rotated_at=now,
        )
        evidence = {
            "source": name,
            "secret_reference": secret_reference,
            "previous_until": (now + grace).isoformat() if grace else "",
        }
        tenant_journal.record(event="source.rotated", actor=actor, evidence=evidence)
        return SourceResult(source.pk)


def end_source(*, tenant_id: int, name: str, person_id: int, now: datetime) -> SourceResult:
    """Take nothing more from a source; what it sent is kept. Admins only. Raises NotPermitted, NoSuchSource."""
    with acting(tenant_id):
        actor = authority.require(person_id, Role.ADMIN)
        source = _lock(name)
        EventSource.objects.filter(pk=source.pk).update(ended_at=now)
        tenant_journal.record(event="source.ended", actor=actor, evidence={"source": name})
        return SourceResult(source.pk)


def discard_event(*, tenant_id: int, event_id: int, person_id: int, now: datetime) -> None:
    """Give up an event that nobody has waited for: its value is blanked, its id stays. Operators and admins.

    Raises NotPermitted, NoSuchEvent.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, Role.OPERATOR, Role.ADMIN)
        event = next(iter(lock_unused_events(ids=[event_id])), None)
        if event is None or event.closed_how == EventEnd.DISCARDED:
            raise NoSuchEvent("This event was used or discarded, or is not here.")
        ExternalEvent.objects.filter(pk=event.pk).update(
            closed_at=now, closed_how=EventEnd.DISCARDED, closed_by=actor.name, value=""
        )
        evidence = {"source": event.source, "event_id": event.event_id, "event_key": digest_of(event.key)}
        tenant_journal.record(event="event.discarded", actor=actor, evidence=evidence)


def _lock(name: str) -> EventSource:
    source = lock_source(name)
    if source is None:
        raise NoSuchSource(f"There is no source {name} here, or it has ended.")
    return source


def _check(reference: str) -> None:
    if not SECRETS.allow(reference):
        raise BadSource(f"A secret is named as {SECRETS.forms}, never written here.")
