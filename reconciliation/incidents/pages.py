"""What the screens show of incidents: those that are open, and one with its cases, what can be done to all, and its time line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Min, Q
from django.db.models.functions import TruncMinute

from access.models import TenantEntry
from access.refusals import NotFound
from access.roles import Role
from reconciliation.bulk.selecting import Filters, chosen
from reconciliation.bulk.verbs import TERMS, BulkVerb, terms_of
from reconciliation.mismatched import stopped_workflows
from reconciliation.models import Bulk, BulkState, Case, Incident
from reconciliation.words import state_words
from workflows.titles import workflow_title

LATEST, LINES = 20, 100
_EVENTS = ("incident.opened", "incident.reopened", "incident.closed", "receiver.paused", "receiver.resumed")
_OFFERED = (BulkVerb.LOOK_UP, BulkVerb.NOT_APPLIED, BulkVerb.SEND_AGAIN, BulkVerb.SECOND, BulkVerb.TAKE)
"""What can be done to all of them, safest first."""


class NoSuchIncident(NotFound):
    """There is no such incident in this tenant."""


@dataclass(frozen=True, slots=True)
class Row:
    """One incident with how many of its cases are open, how many are nobody's, and when the first of them is due."""

    incident: Incident
    words: str
    total: int
    open: int
    nobodys: int
    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Offer:
    """One verb for all of them, and how many it could be done to."""

    verb: str
    title: str
    sentence: str
    count: int


@dataclass(frozen=True, slots=True)
class Line:
    """Something that happened, and when; `bulk` is the number of the bulk that did it, or 0."""

    at: datetime
    who: str
    what: str
    bulk: int = 0


@dataclass(frozen=True, slots=True)
class IncidentPage:
    """One incident. `answers`: how its cases were resolved, and how many each way. `stopped`: workflows of which nothing is
    sent to its receiver until its cases are answered."""

    row: Row
    offers: Sequence[Offer]
    may: bool
    answers: Sequence[tuple[str, int]]
    lines: Sequence[Line]
    stopped: Sequence[str] = ()

    @property
    def resolved(self) -> int:
        return self.row.total - self.row.open


def open_incidents() -> list[Row]:
    """Those that are open, the one that is due first on top. Two queries, or one where there is none."""
    rows = _rows(Incident.objects.filter(closed_at__isnull=True).select_related("receiver").order_by("pk"))
    return sorted(rows, key=lambda r: (r.due_at is None, r.due_at or r.incident.opened_at, r.incident.pk))


def closed_incidents() -> list[Row]:
    """The latest that have closed. Two queries."""
    closed = Incident.objects.filter(closed_at__isnull=False).select_related("receiver")
    return _rows(closed.order_by("-pk")[:LATEST])


def incident_page(incident_id: int, roles: frozenset[Role]) -> IncidentPage:
    """One incident. Twelve queries at most. Raises NoSuchIncident."""
    rows = _rows(Incident.objects.filter(pk=incident_id).select_related("receiver"))
    if not rows:
        raise NoSuchIncident(f"There is no incident {incident_id} here.")
    (row,) = rows
    resolved = Case.objects.filter(incident=incident_id, resolved_at__isnull=False).values_list("resolution")
    return IncidentPage(
        row=row,
        offers=[o for o in map(_offer(row.incident), _OFFERED) if o.count] if row.open else [],
        may=Role.OPERATOR in roles,
        answers=list(resolved.annotate(n=Count("pk")).order_by("-n", "resolution")),
        lines=sorted(_lines(row.incident), key=lambda line: line.at, reverse=True)[:LINES],
        stopped=[workflow_title(name) for name in stopped_workflows(row.incident)],
    )


def _rows(incidents: Iterable[Incident]) -> list[Row]:
    found = list(incidents)
    if not found:
        return []
    is_open = Q(resolved_at__isnull=True)
    counted = Case.objects.filter(incident__in=[i.pk for i in found]).values("incident").order_by()
    sums: dict[int, dict[str, Any]] = {
        row["incident"]: dict(row)
        for row in counted.annotate(
            n=Count("pk"),
            open=Count("pk", filter=is_open),
            free=Count("pk", filter=is_open & Q(assignee__isnull=True)),
            due=Min("due_at", filter=is_open),
        )
    }
    none: dict[str, Any] = {"n": 0, "open": 0, "free": 0, "due": None}
    return [_row(incident, sums.get(incident.pk, none)) for incident in found]


def _row(incident: Incident, sums: dict[str, Any]) -> Row:
    words = f"{state_words(incident.kind)}: {incident.fault}"
    return Row(incident, words, sums["n"], sums["open"], sums["free"], sums["due"])


def _offer(incident: Incident) -> Any:
    def offer(verb: BulkVerb) -> Offer:
        terms = TERMS[verb]
        count = chosen(terms, Filters(incident=str(incident.pk))).count()
        return Offer(verb.value, terms.title, terms.sentence, count)

    return offer


def _lines(incident: Incident) -> Iterator[Line]:
    cases = Case.objects.filter(incident=incident)
    joined = cases.annotate(minute=TruncMinute("opened_at")).values_list("minute").annotate(n=Count("pk"))
    for minute, number in joined.order_by("-minute")[:LINES]:
        yield Line(minute, "", f"{_cases(number)} joined")
    left = cases.filter(resolved_at__isnull=False).annotate(minute=TruncMinute("resolved_at"))
    answers = left.values_list("minute", "resolution", "resolved_by__username").annotate(n=Count("pk"))
    for minute, resolution, who, number in answers.order_by("-minute", "resolution", "resolved_by__username")[
        :LINES
    ]:
        yield Line(minute, who or "the machine", f"{_cases(number)} answered: {resolution}")
    bulks = Bulk.objects.filter(filters__incident=str(incident.pk)).exclude(state=BulkState.PLANNED)
    for bulk in bulks.select_related("confirmed_by").order_by("-pk")[:LINES]:
        assert bulk.confirmed_at is not None
        assert bulk.confirmed_by is not None
        told = f"{terms_of(bulk.verb).title}: {_cases(bulk.total)}, {bulk.state}"
        yield Line(bulk.confirmed_at, bulk.confirmed_by.username, told, bulk.pk)
    yield from _journalled(incident)


def _journalled(incident: Incident) -> Iterator[Line]:
    entries = TenantEntry.objects.filter(event__in=_EVENTS, at__gte=incident.began_at)
    for entry in entries.order_by("-sequence")[:LINES]:
        told = json.loads(entry.evidence)
        if entry.event.startswith("incident.") and told["incident"] == incident.pk:
            yield Line(entry.at, entry.actor_name, f"The incident was {entry.event.partition('.')[2]}")
        elif entry.event.startswith("receiver.") and told["receiver"] == incident.receiver.name:
            reason = f": {told['reason']}" if told.get("reason") else ""
            what = entry.event.partition(".")[2]
            yield Line(entry.at, entry.actor_name, f"{incident.receiver.title} was {what}{reason}")


def _cases(number: int) -> str:
    return "1 case" if number == 1 else f"{number:,} cases"
