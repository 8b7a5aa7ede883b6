"""What a case that opens belongs to: the open incident of its fault, a new one where it is one too many, or none.

It runs in the transaction that opens the case, with the job locked, and waits for nobody: who is just opening the same
incident is told by a lock that is tried, and what that misses the sweep finds.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection
from django.db.models import QuerySet

from reconciliation.models import Case, CaseKind, Incident

STORM = 5
"""So many open cases of one fault make an incident,"""
WINDOW = timedelta(minutes=10)
"""if they were opened within this time."""
AT_ONCE = (CaseKind.KEY_MISMATCH.value,)
"""Of these kinds one alone is an incident: it stops what others would send too."""


def needed(kind: str) -> int:
    """So many open cases of one fault make an incident."""
    return 1 if kind in AT_ONCE else STORM


@dataclass(frozen=True, slots=True)
class Fault:
    """What cases of one incident have in common."""

    tenant_id: int
    receiver_id: int
    kind: str
    fault: str

    def cases(self, *, since: datetime) -> QuerySet[Case]:
        """Open ones of no incident yet, opened after a moment."""
        alike = Case.objects.filter(receiver=self.receiver_id, kind=self.kind, fault=self.fault)
        return alike.filter(resolved_at__isnull=True, incident__isnull=True, opened_at__gt=since)

    def incident(self) -> Incident | None:
        """The open one."""
        alike = Incident.objects.filter(receiver=self.receiver_id, kind=self.kind, fault=self.fault)
        return alike.filter(closed_at__isnull=True).first()


@dataclass(frozen=True, slots=True)
class Joined:
    """The incident that a new case belongs to. `storm`: people hear of the incident, so not of this case by itself."""

    incident: Incident | None
    storm: bool


ALONE = Joined(None, storm=False)


def join(fault: Fault, now: datetime) -> Joined:
    """What a case about this, which is not there yet, will belong to. In the transaction that opens it."""
    found = fault.incident()
    if found is not None:
        return Joined(found, storm=True)
    others, wanted = fault.cases(since=now - WINDOW), needed(fault.kind) - 1
    earlier = list(others.order_by("opened_at").values_list("opened_at", flat=True)[:wanted])
    if len(earlier) < wanted:
        return ALONE
    if not try_lock(fault):
        return Joined(None, storm=True)  # somebody is just opening it; the sweep has this case join
    return Joined(fault.incident() or begin(fault, min(earlier, default=now), now), storm=True)


def begin(fault: Fault, began_at: datetime, now: datetime) -> Incident:
    """Open the incident. The caller holds its lock and has seen that there is none."""
    return Incident.objects.create(
        tenant_id=fault.tenant_id,
        receiver_id=fault.receiver_id,
        kind=fault.kind,
        fault=fault.fault,
        began_at=began_at,
        opened_at=now,
    )


def try_lock(fault: Fault) -> bool:
    """Whether this transaction is the one that may open the incident. It never waits, so it needs no place in an order."""
    name = f"incident:{fault.tenant_id}:{fault.receiver_id}:{fault.kind}:{fault.fault}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 2))", [name])
        return bool(cursor.fetchone()[0])
