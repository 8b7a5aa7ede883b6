"""What follows when cases come and go: an errand of the engines, every three seconds where there is anything to do.

One turn is one transaction under the organisation's lock for incidents. It locks cases only where nobody has them
(SKIP LOCKED), and the tenant's journal last.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection
from django.db.models import Count, Exists, Min, OuterRef, Q, QuerySet

from access.roles import Actor, ActorKind
from access.tenancy import acting
from access.tenant_journal import record
from reconciliation import notifying
from reconciliation.incidents.joining import AT_ONCE, STORM, WINDOW, Fault, begin, try_lock
from reconciliation.models import Case, Incident
from workflows import clock
from workflows.errands import Errand
from workflows.locks import lock_name

LATE = timedelta(hours=1)
"""What comes so soon after an incident closed opens it again."""

ADOPTED_AT_ONCE = 2000
_ALONE = ", ".join(f"'{kind}'" for kind in AT_ONCE)

FIND = f"""
SELECT tenant_id, id FROM reconciliation_incident i WHERE closed_at IS NULL AND (announced_at IS NULL OR NOT EXISTS (
  SELECT FROM reconciliation_case c WHERE c.tenant_id = i.tenant_id AND c.incident_id = i.id AND c.resolved_at IS NULL))
UNION ALL
SELECT i.tenant_id, i.id FROM reconciliation_incident i WHERE closed_at > now() - interval '1 hour' AND EXISTS (
  SELECT FROM reconciliation_case c WHERE c.tenant_id = i.tenant_id AND c.incident_id = i.id AND c.resolved_at IS NULL)
UNION ALL
SELECT c.tenant_id, min(c.id) FROM reconciliation_case c
WHERE c.resolved_at IS NULL AND c.incident_id IS NULL AND c.receiver_id IS NOT NULL AND c.fault <> ''
  AND c.opened_at > now() - interval '1 hour'
GROUP BY c.tenant_id, c.receiver_id, c.kind, c.fault
HAVING count(*) FILTER (WHERE c.opened_at > now() - interval '10 min') >= CASE WHEN c.kind IN ({_ALONE}) THEN 1 ELSE {STORM} END OR EXISTS (
  SELECT FROM reconciliation_incident i WHERE i.tenant_id = c.tenant_id AND i.receiver_id = c.receiver_id
  AND i.kind = c.kind AND i.fault = c.fault AND i.began_at <= max(c.opened_at) AND (i.closed_at IS NULL OR i.closed_at > now() - interval '1 hour'))
"""  # noqa: S608 - names and a number of this code
_ADOPT = """
UPDATE reconciliation_case SET incident_id = %s WHERE id IN (
  SELECT id FROM reconciliation_case WHERE receiver_id = %s AND kind = %s AND fault = %s AND resolved_at IS NULL
    AND incident_id IS NULL AND opened_at >= %s ORDER BY id LIMIT %s FOR NO KEY UPDATE SKIP LOCKED)
"""


@dataclass(frozen=True, slots=True)
class Swept:
    """How many incidents were opened here, announced, opened again and closed, and how many cases joined."""

    begun: int
    announced: int
    reopened: int
    joined: int
    closed: int


def turn(tenant_id: int, found_id: int, worker: str) -> bool:
    """Bring the organisation's incidents up to date with its cases. A repeat changes nothing."""
    return sweep(tenant_id, Actor(kind=ActorKind.WORKER, name=worker), clock.now()).joined >= ADOPTED_AT_ONCE


def sweep(tenant_id: int, actor: Actor, now: datetime) -> Swept:
    """`turn`, told whose it is and when. Locks the organisation's incidents → cases (SKIP LOCKED) → its journal."""
    with acting(tenant_id):
        lock_name("incidents", tenant_id, "")
        begun = _begin_missed(tenant_id, now)
        reopened = _reopen(actor, now)
        joined = sum(
            _adopt(incident) for incident in Incident.objects.filter(closed_at__isnull=True).order_by("pk")
        )
        announced = _announce(actor, now)
        return Swept(begun, announced, reopened, joined, _close(actor, now))


def _begin_missed(tenant_id: int, now: datetime) -> int:
    """Storms whose cases opened side by side, so that none of them saw the others; and what should be one at once, of which
    another transaction held the lock and was rolled back."""
    recent = Case.objects.filter(resolved_at__isnull=True, incident__isnull=True, receiver__isnull=False)
    recent = recent.filter(opened_at__gt=now - WINDOW).exclude(fault="")
    same = (
        recent.values("receiver", "kind", "fault").annotate(n=Count("pk"), began=Min("opened_at")).order_by()
    )
    begun = 0
    for row in same.filter(Q(n__gte=STORM) | Q(kind__in=AT_ONCE)):
        fault = Fault(tenant_id, row["receiver"], row["kind"], row["fault"])
        if (
            fault.incident() is None
            and _closed_lately(fault, now) is None
            and try_lock(fault)
            and not fault.incident()
        ):
            begin(fault, row["began"], now)
            begun += 1
    return begun


def _reopen(actor: Actor, now: datetime) -> int:
    """Incidents that closed a short while ago, and whose fault is there again."""
    same = Case.objects.filter(
        receiver=OuterRef("receiver"),
        kind=OuterRef("kind"),
        fault=OuterRef("fault"),
        resolved_at__isnull=True,
    )
    late = same.filter(incident__isnull=True, opened_at__gte=OuterRef("began_at"))
    mine = Case.objects.filter(incident=OuterRef("pk"), resolved_at__isnull=True)
    lately = Incident.objects.filter(closed_at__gt=now - LATE)
    reopened = 0
    for incident in lately.filter(Exists(late) | Exists(mine)).order_by("-pk"):
        fault = Fault(incident.tenant_id, incident.receiver_id, incident.kind, incident.fault)
        if fault.incident() is None and try_lock(fault) and fault.incident() is None:
            Incident.objects.filter(pk=incident.pk).update(closed_at=None)
            record(event="incident.reopened", actor=actor, evidence=_named(incident))
            reopened += 1
    return reopened


def _closed_lately(fault: Fault, now: datetime) -> Incident | None:
    alike = Incident.objects.filter(receiver=fault.receiver_id, kind=fault.kind, fault=fault.fault)
    return alike.filter(closed_at__gt=now - LATE).first()


def _adopt(incident: Incident) -> int:
    """Have cases of its fault join that opened just before it, or without seeing it. Those that are locked join later."""
    # Of two such cases side by side, either may have been opened with the earlier clock; one has opened the incident.
    since = incident.began_at - (WINDOW if incident.kind in AT_ONCE else timedelta())
    values: list[Any] = [incident.receiver_id, incident.kind, incident.fault, since, ADOPTED_AT_ONCE]
    with connection.cursor() as cursor:
        cursor.execute(_ADOPT, [incident.pk, *values])
        return int(cursor.rowcount)


def _announce(actor: Actor, now: datetime) -> int:
    """Tell people of new incidents, once each."""
    fresh = list(
        Incident.objects.filter(announced_at__isnull=True, closed_at__isnull=True).select_related("receiver")
    )
    for incident in fresh:
        Incident.objects.filter(pk=incident.pk).update(announced_at=now)
        cases = Case.objects.filter(incident=incident).count()
        record(event="incident.opened", actor=actor, evidence={**_named(incident), "cases": cases})
        notifying.incident_opened(incident, cases, now)
    return len(fresh)


def _close(actor: Actor, now: datetime) -> int:
    """End those whose last case was answered."""
    ended = 0
    for incident in _without_open_cases():
        Incident.objects.filter(pk=incident.pk).update(closed_at=now)
        cases = Case.objects.filter(incident=incident).count()
        record(event="incident.closed", actor=actor, evidence={**_named(incident), "cases": cases})
        ended += 1
    return ended


def _without_open_cases() -> QuerySet[Incident]:
    still = Case.objects.filter(incident=OuterRef("pk"), resolved_at__isnull=True)
    found = Incident.objects.filter(~Exists(still), closed_at__isnull=True, announced_at__isnull=False)
    return found.select_related("receiver").order_by("pk")


def _named(incident: Incident) -> dict[str, Any]:
    return {
        "incident": incident.pk,
        "receiver": incident.receiver.name,
        "kind": incident.kind,
        "fault": incident.fault,
    }


ERRAND = Errand("incidents", FIND, turn)
