"""An event from outside, whose signature was looked at: it ends a wait at once, or is kept for one that will begin."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection
from django.db.models import Q

from access.refusals import Conflict, Refused
from access.roles import Actor, ActorKind
from access.tenancy import acting
from workflows import expectations, submissions
from workflows.actions.advance import go_on
from workflows.actions.begin_waits import evidence_of
from workflows.authoring import Problem
from workflows.authoring.waits import LONGEST_KEY, is_key
from workflows.expectations import Misfit, database_now, digest_of
from workflows.locks import lock_expectations, lock_items, lock_job
from workflows.models import EventEnd, Expectation, ExternalEvent
from workflows.submissions import InvalidSubmission


class InvalidEvent(InvalidSubmission):
    """What came could end no wait: its key or its value is not fit to be kept."""


class EventIdReused(Conflict):
    """The same event id came with another key or value. One id an event; the first one stands."""


class TooManyUnused(Refused):
    """Nobody waits for what this source sends, and as many as may be kept are kept already. Nothing was kept."""


@dataclass(frozen=True, slots=True)
class Received:
    """`used`: it ended a wait. Else it is kept for a wait that may begin. `replayed`: it had come before."""

    used: bool
    replayed: bool = False


def receive_event(
    *, tenant_id: int, source: str, event_id: str, key: str, value: Any, now: datetime
) -> Received:
    """Take one event, once an `event_id` of a source: the same content again is answered as the first time.

    `value` is parsed JSON (`submissions.parse`). Where a step waits for the key, the value has to be of its type. Locks
    the event's id → job → item → expectation. A held job's event counts; what follows does not run until it is
    released. Raises InvalidEvent (what no wait could use), Misfit (not of the type; the wait goes on, and the
    same id may come again), EventIdReused, TooManyUnused, RevisionMissing; then nothing is kept.
    """
    text, digest = _content(key, value)
    actor = Actor(ActorKind.SOURCE, source)
    try:
        with acting(tenant_id):
            _lock_id(tenant_id, source, event_id)
            known = ExternalEvent.objects.filter(source=source, event_id=event_id).first()
            if known is not None:
                return _replay(known, digest)
            event = ExternalEvent(
                tenant_id=tenant_id, source=source, event_id=event_id, key=key, value=text, digest=digest
            )
            job_id = _take(event, value, actor, now)
    except Misfit as misfit:
        _note(tenant_id, key, misfit, actor, now)
        raise
    if job_id:
        go_on(tenant_id, job_id)
    return Received(used=bool(job_id))


def _content(key: str, value: Any) -> tuple[str, str]:
    problems = [] if is_key(key) else [Problem("key", f"give 1 to {LONGEST_KEY} printable characters")]
    problems += submissions.problems_of({"value": value})
    if problems:
        raise InvalidEvent(problems)
    text = submissions.canonical(value)
    return text, digest_of(f"{key}\n{text}")


def _lock_id(tenant_id: int, source: str, event_id: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 1))", [f"{tenant_id}:{source}:{event_id}"]
        )


def _replay(known: ExternalEvent, digest: str) -> Received:
    if known.digest != digest:
        raise EventIdReused(
            f"The event {known.event_id} came before with another key or value; a new event needs a new id."
        )
    return Received(used=known.closed_how == EventEnd.USED, replayed=True)


def _take(event: ExternalEvent, value: Any, actor: Actor, now: datetime) -> int:
    """Save the event, and end the wait for it if there is one: its job's id, or 0."""
    awaited = _awaiting(event)
    if awaited is None:
        _keep(event)
        return 0
    job = lock_job(awaited.job_id)
    (item,) = lock_items([awaited.item_id])
    (expectation,) = lock_expectations([awaited.pk])
    event.received_at = database_now()
    if not expectations.takes(item, expectation, event.received_at):
        _keep(event)
        return 0
    output = expectations.typed(job, item.stage.name, value)
    expectations.settle(
        job=job, item=item, expectation=expectation, output=output, event="event.received", actor=actor,
        evidence=evidence_of(event), now=now,
    )  # fmt: skip
    event.used_by, event.closed_at, event.closed_how = expectation, now, EventEnd.USED
    event.save(force_insert=True)
    return job.pk


def _awaiting(event: ExternalEvent) -> Expectation | None:
    by_anybody_or_it = Q(source="") | Q(source=event.source)
    return Expectation.objects.filter(by_anybody_or_it, key=event.key, settled_at__isnull=True).first()


def _keep(event: ExternalEvent) -> None:
    kept = ExternalEvent.objects.filter(source=event.source, closed_how__in=["", EventEnd.MISFIT]).count()
    if kept >= settings.COUNTERFOIL_UNUSED_EVENTS:
        raise TooManyUnused(
            f"{kept:,} events of this source are kept that nobody has waited for, and no more are. Send it again later."
        )
    event.received_at = database_now()
    event.save(force_insert=True)


def _note(tenant_id: int, key: str, misfit: Misfit, actor: Actor, now: datetime) -> None:
    """In a transaction of its own, after the one that refused was rolled back."""
    with acting(tenant_id):
        found = Expectation.objects.filter(key=key, settled_at__isnull=True).first()
        if found is not None:
            job = lock_job(found.job_id)
            for expectation in lock_expectations([found.pk]):
                if expectation.settled_at is None:
                    expectations.note_misfit(
                        job=job, expectation=expectation, misfit=misfit, actor=actor, now=now
                    )
