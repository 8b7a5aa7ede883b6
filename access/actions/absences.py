"""Being out of office: nobody waits for somebody who is away, and nothing is decided by it.

Whoever is away may still sign. Authority can be lent for the same time, in the same step.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from access import authority, tenant_journal
from access.actions.delegations import Lending, OverAlready, lend, own_or_admin, zone_of_tenant
from access.locks import lock_arrangements_of
from access.models import Absence, Person
from access.refusals import Conflict, NotFound, Unprocessable
from access.spans import Span
from access.tenancy import acting


class NobodyHere(Unprocessable):
    """The person holds no role in this tenant."""


class AwayAlready(Conflict):
    """An absence is noted for some of the same time."""


class NoSuchAbsence(NotFound):
    """There is no such absence in this tenant."""


def note_absence(
    *,
    tenant_id: int,
    absent_id: int,
    span: Span,
    person_id: int,
    now: datetime,
    lending: Lending | None = None,
) -> int:
    """Note that somebody is out of office, with what they lend meanwhile, and return the absence's id.

    One's own, or an admin for others. Both are written or neither; `lending` takes the absence's time. Locks the
    person's arrangements; a repeat is AwayAlready. Raises NotPermitted, NobodyHere, BadSpan, CannotLend, LentAlready.
    """
    with acting(tenant_id):
        lock_arrangements_of(absent_id)
        actor = own_or_admin(person_id, absent_id)
        if not authority.roles_of(absent_id):
            raise NobodyHere("Only people who hold a role in this organisation can be noted as away.")
        checked = span.checked(now, zone_of_tenant())
        _not_twice(absent_id, checked)
        made = Absence.objects.create(
            tenant_id=tenant_id,
            person_id=absent_id,
            starts_at=checked.starts_at,
            ends_at=checked.ends_at,
            noted_at=now,
            noted_by=actor.name,
        )
        evidence = {
            "absence": made.pk,
            "person": Person.objects.values_list("username", flat=True).get(pk=absent_id),
            "from": checked.starts_at.isoformat(),
            "until": checked.ends_at.isoformat(),
        }
        tenant_journal.record(event="absence.noted", actor=actor, evidence=evidence)
        if lending is not None:
            lend(giver_id=absent_id, lending=replace(lending, span=checked), actor=actor, now=now)
        return made.pk


def end_absence(*, tenant_id: int, absence_id: int, person_id: int, now: datetime) -> None:
    """Somebody is back, or will not go: the absence is over. One's own, or an admin. What was lent stays lent.

    Locks the one row; a repeat is OverAlready. Raises NotPermitted, NoSuchAbsence.
    """
    with acting(tenant_id):
        found = Absence.objects.filter(pk=absence_id).select_related("person").first()
        if found is None:
            raise NoSuchAbsence("There is no such absence here.")
        actor = own_or_admin(person_id, found.person_id)
        live = Absence.objects.filter(pk=absence_id, ended_at__isnull=True, ends_at__gt=now)
        if not live.update(ended_at=now):
            raise OverAlready("This absence is over already.")
        evidence = {"absence": absence_id, "person": found.person.username}
        tenant_journal.record(event="absence.ended", actor=actor, evidence=evidence)


def _not_twice(absent_id: int, span: Span) -> None:
    others = Absence.objects.filter(
        person_id=absent_id, ended_at__isnull=True, starts_at__lt=span.ends_at, ends_at__gt=span.starts_at
    )
    other = others.order_by("starts_at").first()
    if other is not None:
        begins, until = (at.astimezone(zone_of_tenant()) for at in (other.starts_at, other.ends_at))
        raise AwayAlready(
            f"An absence from {begins:%-d %b %Y, %H:%M} until {until:%-d %b %Y, %H:%M} is noted already. End it first."
        )
