"""Which open cases somebody wants to see. What is chosen is written in the page's address, and kept in saved views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Self

from django.db.models import Q, QuerySet

from access.models import Membership
from dispatch.models import Receiver
from reconciliation.models import Case, CaseKind, Incident
from reconciliation.owners import at_work, nobodys
from reconciliation.situation import SECONDERS
from reconciliation.tabs import tab_named
from reconciliation.words import kind_choices
from workflows.titles import titles, workflow_title

ME, NOBODY = "me", "nobody"
WITH = "with"
LATE, SOON, KEY_ENDS = "late", "soon", "key"
SOON_HOURS, KEY_HOURS = 4, 8
_LONGEST, _OFFERED = 200, 200


@dataclass(frozen=True, slots=True)
class Age:
    """One bucket of ages: from `since` hours on, below `until`; without an end where that is None."""

    name: str
    words: str
    since: int
    until: int | None

    def opened(self, now: datetime) -> Q:
        """When the cases of this age were opened."""
        found = Q(opened_at__lte=now - timedelta(hours=self.since)) if self.since else Q()
        return found if self.until is None else found & Q(opened_at__gt=now - timedelta(hours=self.until))


AGES = (
    Age("hours", "under 4 h", 0, 4),
    Age("day", "4 to 24 h", 4, 24),
    Age("days", "1 to 3 days", 24, 72),
    Age("week", "3 to 7 days", 72, 168),
    Age("older", "over 7 days", 168, None),
)


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What was chosen; an empty string narrows nothing.

    `kind`: the name of a tab, or of a kind of case. `receiver`: its name. `owner`: "me", "nobody" or a handle. `due`: one
    of the words above. `snoozed`: those that were put off stand in the list too. `incident`: the number of one, or "with":
    those of incidents that are nobody's stand in the list too, and not only in their incidents.
    """

    kind: str = ""
    receiver: str = ""
    workflow: str = ""
    owner: str = ""
    age: str = ""
    due: str = ""
    snoozed: str = ""
    incident: str = ""

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """From an address or a saved view."""
        return cls(**{f.name: _line(given.get(f.name)) for f in fields(cls)})

    def asked(self) -> dict[str, str]:
        """Only what narrows something."""
        return {name: value for name, value in asdict(self).items() if value}


EVERYTHING = Narrowing()


def faults_of(chosen: Narrowing) -> list[str]:
    """What of it means nothing here (any more), each in a sentence. At most three queries."""
    found = []
    if chosen.kind and not _kinds(chosen.kind):
        found.append(f"There is no kind of case “{chosen.kind}”.")
    if chosen.age and _age(chosen.age) is None:
        found.append(f"“{chosen.age}” is no age; there are {', '.join(a.name for a in AGES)}.")
    if chosen.due and chosen.due not in (LATE, SOON, KEY_ENDS):
        found.append(f"“{chosen.due}” says nothing of a due time.")
    if chosen.receiver and not Receiver.objects.filter(name=chosen.receiver).exists():
        found.append(f"There is no receiver “{chosen.receiver}” here.")
    if chosen.incident not in ("", WITH) and _incident(chosen.incident) is None:
        found.append(f"There is no incident “{chosen.incident}” here.")
    named = chosen.owner and chosen.owner not in (ME, NOBODY)
    if named and _person(chosen.owner) is None:
        found.append(f"Nobody called “{chosen.owner}” belongs to this organisation.")
    return found


@dataclass(frozen=True, slots=True)
class Choices:
    """What each filter of the page offers, as (value, words)."""

    kinds: list[tuple[str, str]]
    receivers: list[tuple[str, str]]
    workflows: list[tuple[str, str]]
    owners: list[tuple[str, str]]


def choices(chosen: Narrowing) -> Choices:
    """What the list can be narrowed to; what is chosen stands there although nothing has it. Two queries."""
    workers = Membership.objects.filter(role__in=[r.value for r in SECONDERS], ended_at__isnull=True)
    handles = workers.values_list("person__username", flat=True).order_by().distinct()[:_OFFERED]
    return Choices(
        kinds=kind_choices(),
        receivers=list(Receiver.objects.order_by("title", "pk").values_list("name", "title")[:_OFFERED]),
        workflows=_titled(chosen.workflow),
        owners=_with(chosen.owner if chosen.owner not in (ME, NOBODY) else "", handles),
    )


def _titled(chosen: str) -> list[tuple[str, str]]:
    found = titles() | ({chosen: workflow_title(chosen)} if chosen else {})
    return sorted(found.items(), key=lambda named: named[1].lower())


def _with(chosen: str, found: Iterable[str]) -> list[tuple[str, str]]:
    return [(name, name) for name in sorted({*found, *([chosen] if chosen else [])})]


GROUPED = Q(incident__isnull=False, assignee__isnull=True)
"""Cases that their incident stands for: nobody has taken them out of it."""


def narrowed(chosen: Narrowing, *, person_id: int, now: datetime) -> QuerySet[Case]:
    """The open cases that are left. What means nothing narrows nothing: `faults_of` says so."""
    cases = Case.objects.filter(
        _owner(chosen.owner, person_id), _due(chosen.due, now), resolved_at__isnull=True
    )
    if kinds := _kinds(chosen.kind):
        cases = cases.filter(kind__in=kinds)
    if chosen.receiver and (receiver := Receiver.objects.filter(name=chosen.receiver).first()):
        cases = cases.filter(receiver=receiver)
    if chosen.workflow:
        cases = cases.filter(job__workflow=chosen.workflow)
    if age := _age(chosen.age):
        cases = cases.filter(age.opened(now))
    incident = _incident(chosen.incident)
    if incident is not None:
        cases = cases.filter(incident=incident)
    elif chosen.incident != WITH:
        cases = cases.exclude(GROUPED)
    if not chosen.snoozed:
        cases = cases.filter(Q(snoozed_until__isnull=True) | Q(snoozed_until__lte=now))
    return cases


def _line(value: Any) -> str:
    """One short line, without what PostgreSQL cannot be asked for."""
    return str(value or "").replace("\x00", "\N{SYMBOL FOR NULL}").strip()[:_LONGEST]


def _person(handle: str) -> int | None:
    """Somebody who belongs to the organisation, or did: their cases stay theirs until they are given to others."""
    members = Membership.objects.filter(person__username=handle)
    return members.values_list("person_id", flat=True).first()


def _incident(number: str) -> Incident | None:
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        return None
    return Incident.objects.filter(pk=int(number)).first()


def _kinds(name: str) -> tuple[str, ...]:
    tab = tab_named(name)
    if tab is not None:
        return tuple(kind.value for kind in tab.kinds)
    return (name,) if name in CaseKind.values else ()


def _age(name: str) -> Age | None:
    return next((a for a in AGES if a.name == name), None)


def _owner(owner: str, person_id: int) -> Q:
    if not owner:
        return Q()
    if owner == NOBODY:
        return nobodys(at_work())
    person = person_id if owner == ME else _person(owner)
    return Q() if person is None else Q(assignee_id=person)


def _due(due: str, now: datetime) -> Q:
    if due == KEY_ENDS:
        ends = now + timedelta(hours=KEY_HOURS)
        return Q(operation__resubmit_safe_until__gt=now, operation__resubmit_safe_until__lte=ends)
    until = {LATE: now, SOON: now + timedelta(hours=SOON_HOURS)}.get(due)
    return Q() if until is None else Q(due_at__lte=until)
