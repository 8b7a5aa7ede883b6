"""Sources of events, and what came from them that nobody has used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Min

from workflows import sources
from workflows.models import EventEnd, EventSource, Expectation, ExternalEvent, Settled

PAGE = 50
LONGEST_SHOWN = 2000
KEPT = ("", EventEnd.MISFIT.value)
_WHY = {
    Settled.CAME.value: "what waited for this key had its event before",
    Settled.EXPIRED.value: "it came when nobody waited for this key any more",
    Settled.CANCELLED.value: "what waited for this key was cancelled",
}


@dataclass(frozen=True, slots=True)
class Source:
    """One source: where it sends to, whether this process can check it, and what of it is kept unused."""

    source: EventSource
    fault: str
    kept: int
    limit: int


@dataclass(frozen=True, slots=True)
class Unused:
    """One event that nobody has used, and why."""

    event: ExternalEvent
    why: str
    value: str


def list_sources() -> list[Source]:
    """Every source by name. Two queries."""
    rows = (
        ExternalEvent.objects.filter(closed_how__in=KEPT)
        .values("source")
        .annotate(n=Count("pk"), since=Min("pk"))
    )
    kept = {row["source"]: row["n"] for row in rows.order_by()}
    limit = settings.COUNTERFOIL_UNUSED_EVENTS
    return [
        Source(s, "" if s.ended_at else sources.fault_of(s.secret_reference), kept.get(s.name, 0), limit)
        for s in EventSource.objects.order_by("name")
    ]


def unused_events(*, before: int = 0) -> tuple[list[Unused], int]:
    """Events that are kept, newest first, and the id to go on before (0: that was all). Two queries."""
    rows = ExternalEvent.objects.filter(closed_how__in=KEPT)
    found = list((rows.filter(pk__lt=before) if before else rows).order_by("-pk")[: PAGE + 1])
    why = _reasons(found[:PAGE])
    shown = [Unused(e, why[e.pk], e.value[:LONGEST_SHOWN]) for e in found[:PAGE]]
    return shown, found[PAGE - 1].pk if len(found) > PAGE else 0


def _reasons(events: Sequence[ExternalEvent]) -> dict[int, str]:
    waited = Expectation.objects.filter(key__in={e.key for e in events}).order_by("pk")
    last = dict(waited.values_list("key", "settled_how"))
    return {e.pk: _reason(e, last.get(e.key)) for e in events}


def _reason(event: ExternalEvent, last: str | None) -> str:
    if event.closed_how == EventEnd.MISFIT:
        return f"not what was waited for: {event.misfit}"
    if last is None:
        return "nobody has waited for this key"
    return _WHY.get(last, "another source is waited for")
