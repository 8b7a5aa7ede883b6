"""What follows when items have begun to wait: it is journalled, and an event that had come already is used at once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import groupby

from django.db.models import Exists, OuterRef, Q

from access.roles import WORKER, Actor, ActorKind
from access.tenancy import acting
from workflows import expectations, journal
from workflows.actions.advance import go_on
from workflows.expectations import Misfit, digest_of
from workflows.locks import lock_expectations, lock_items, lock_job, lock_unused_events
from workflows.models import EventEnd, Expectation, ExpectationKind, ExternalEvent, Job, WorkItem

BATCH = 500


def begin_waits(*, tenant_id: int, job_id: int, now: datetime) -> int:
    """Journal the waits of a job that have begun, and end those whose event is there already; how many were looked at.

    Up to 500 at a time; call it again while it returns that many. Locks job → items → expectations. Called after the
    batch that recorded the waits, and by the sweep, which also finds the pairs that missed each other: an event and a
    wait that were committed in the same instant. Raises RevisionMissing; then nothing is done, and a process that has
    the revision does it.
    """
    with acting(tenant_id):
        job = lock_job(job_id)
        found = list(_to_look_at(job))
        items = {i.pk: i for i in lock_items([e.item_id for e in found])}
        locked = lock_expectations([e.pk for e in found])
        _journal([e for e in locked if e.begun_at is None], items, job=job, now=now)
        used = _use_early(locked, items, job=job, now=now)
    if used:
        go_on(tenant_id, job_id)
    return len(found)


def _to_look_at(job: Job) -> Iterable[Expectation]:
    early = ExternalEvent.objects.filter(key=OuterRef("key"), closed_at__isnull=True)
    waiting = Expectation.objects.filter(job=job, settled_at__isnull=True)
    of_event = Q(kind=ExpectationKind.EVENT)
    return waiting.filter(Q(begun_at__isnull=True) | (of_event & Exists(early))).order_by("pk")[:BATCH]


def _journal(begun: Sequence[Expectation], items: dict[int, WorkItem], *, job: Job, now: datetime) -> None:
    """One entry a stage and kind: a fan-out of thousands does not write thousands."""
    Expectation.objects.filter(pk__in=[e.pk for e in begun]).update(begun_at=now)

    def of(e: Expectation) -> tuple[str, str]:
        return items[e.item_id].stage.name, e.kind

    for (stage, kind), group in groupby(sorted(begun, key=of), key=of):
        waits = list(group)
        due = min((e.due_at for e in waits if e.due_at is not None), default=None)
        evidence = {
            "stage": stage,
            "kind": kind,
            "waits": len(waits),
            "for": digest_of("\n".join(e.key or e.question for e in waits)),
            "due": due.isoformat() if due else "",
            **({"item": waits[0].item_id, "key": items[waits[0].item_id].key} if len(waits) == 1 else {}),
        }
        journal.record(job=job, event="wait.began", actor=WORKER, evidence=evidence)


def _use_early(waits: Sequence[Expectation], items: dict[int, WorkItem], *, job: Job, now: datetime) -> int:
    keys = [e.key for e in waits if e.kind == ExpectationKind.EVENT]
    came: dict[str, list[ExternalEvent]] = {}
    for event in lock_unused_events(keys=keys):
        if event.closed_at is None:
            came.setdefault(event.key, []).append(event)
    return sum(
        _use_first(came.get(e.key, []), job=job, item=items[e.item_id], expectation=e, now=now) for e in waits
    )


def _use_first(
    came: Sequence[ExternalEvent], *, job: Job, item: WorkItem, expectation: Expectation, now: datetime
) -> bool:
    """Whether one of the events ends the wait: the oldest that may, and whose value is of the type."""
    return any(
        use(event, job=job, item=item, expectation=expectation, now=now)
        for event in came
        if expectation.source in ("", event.source)
        and expectations.takes(item, expectation, event.received_at)
    )


def use(event: ExternalEvent, *, job: Job, item: WorkItem, expectation: Expectation, now: datetime) -> bool:
    """End the wait with an event that had come before; False where its value is not of the type, which is kept."""
    actor = Actor(ActorKind.SOURCE, event.source)
    try:
        output = expectations.typed(job, item.stage.name, json.loads(event.value))
    except Misfit as misfit:
        told = {"closed_at": now, "closed_how": EventEnd.MISFIT, "misfit": str(misfit)[:500]}
        ExternalEvent.objects.filter(pk=event.pk).update(**told)
        expectations.note_misfit(job=job, expectation=expectation, misfit=misfit, actor=actor, now=now)
        expectation.refresh_from_db()
        return False
    expectations.settle(
        job=job, item=item, expectation=expectation, output=output, event="event.received", actor=actor,
        evidence=evidence_of(event), now=now,
    )  # fmt: skip
    ExternalEvent.objects.filter(pk=event.pk).update(
        used_by=expectation, closed_at=now, closed_how=EventEnd.USED
    )
    return True


def evidence_of(event: ExternalEvent) -> dict[str, str]:
    """What the journal holds of an event: references and digests."""
    return {
        "source": event.source,
        "event_id": event.event_id,
        "event_key": digest_of(event.key),
        "received_at": event.received_at.isoformat(),
    }
