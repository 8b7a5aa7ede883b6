"""Lending authority to approve: for a time, within a scope, one step deep. It never raises a limit.

What was signed with lent authority and is not sent yet stops counting when the delegation ends or is revoked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db.models import Q

from access import authority, tenant_journal
from access.locks import lock_arrangements_of
from access.models import Delegation, Person, Tenant
from access.refusals import Conflict, NotFound, NotPermitted, Unprocessable
from access.roles import Actor, Role
from access.spans import Span
from access.tenancy import acting, require_scope

LONGEST_REASON = 1000
MOST = Decimal(10) ** 15
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


class CannotLend(Unprocessable):
    """It cannot be lent like this; the message says what to change."""


class LentAlready(Conflict):
    """The same is lent to the same person for some of the same time."""


class NoSuchDelegation(NotFound):
    """There is no such delegation in this tenant."""


class OverAlready(Conflict):
    """It has ended, or was revoked before."""


@dataclass(frozen=True, slots=True)
class Lending:
    """What is lent: to whom, for which policies (none: all), up to which amount, and why."""

    taker_id: int
    span: Span
    reason: str
    policies: tuple[str, ...] = ()
    most_amount: Decimal | None = None
    most_currency: str = ""


def lend_authority(*, tenant_id: int, giver_id: int, lending: Lending, person_id: int, now: datetime) -> int:
    """Lend the giver's authority and return the delegation's id. The giver does it, or an admin for them.

    Locks the giver's arrangements, so that two at once cannot lend the same twice; a repeat is LentAlready. Raises
    NotPermitted, CannotLend, BadSpan.
    """
    with acting(tenant_id):
        lock_arrangements_of(giver_id)
        actor = own_or_admin(person_id, giver_id)
        return lend(giver_id=giver_id, lending=lending, actor=actor, now=now)


def revoke_delegation(*, tenant_id: int, delegation_id: int, person_id: int, now: datetime) -> None:
    """End a delegation before its time. Its giver, or an admin. Locks the one row; a repeat is OverAlready.

    Raises NotPermitted, NoSuchDelegation.
    """
    with acting(tenant_id):
        found = Delegation.objects.filter(pk=delegation_id).select_related("giver", "taker").first()
        if found is None:
            raise NoSuchDelegation("There is no such delegation here.")
        actor = own_or_admin(person_id, found.giver_id)
        live = Delegation.objects.filter(pk=delegation_id, revoked_at__isnull=True, ends_at__gt=now)
        if not live.update(revoked_at=now, revoked_by=actor.name):
            raise OverAlready("This is over already; nothing had to be revoked.")
        evidence = {
            "delegation": delegation_id,
            "giver": found.giver.username,
            "taker": found.taker.username,
        }
        tenant_journal.record(event="delegation.revoked", actor=actor, evidence=evidence)


def lend(*, giver_id: int, lending: Lending, actor: Actor, now: datetime) -> int:
    """The same inside the caller's transaction, which has asked for the actor and holds the giver's lock."""
    people = _check(giver_id, lending)
    span = lending.span.checked(now, zone_of_tenant())
    policies = tuple(sorted(set(lending.policies)))
    _not_twice(giver_id, lending.taker_id, span, policies)
    made = Delegation.objects.create(
        tenant_id=require_scope(),
        giver_id=giver_id,
        taker_id=lending.taker_id,
        policies="\n".join(policies),
        most_amount=lending.most_amount,
        most_currency=lending.most_currency,
        reason=lending.reason.strip(),
        starts_at=span.starts_at,
        ends_at=span.ends_at,
        given_at=now,
        given_by=actor.name,
    )
    evidence = {
        "delegation": made.pk,
        "giver": people[giver_id],
        "taker": people[lending.taker_id],
        "from": span.starts_at.isoformat(),
        "until": span.ends_at.isoformat(),
        "policies": list(policies),
        "most": None if lending.most_amount is None else f"{lending.most_amount} {lending.most_currency}",
        "reason": made.reason,
    }
    tenant_journal.record(event="delegation.given", actor=actor, evidence=evidence)
    return made.pk


def own_or_admin(person_id: int, whose_id: int) -> Actor:
    """The person as an actor on what is theirs, or as an admin on what is somebody else's. Raises NotPermitted."""
    if person_id != whose_id:
        return authority.require(person_id, Role.ADMIN)
    held = authority.roles_of(person_id)
    if not held:
        raise NotPermitted("Only people of this organisation may do this.")
    return authority.require(person_id, *sorted(held))


def zone_of_tenant() -> ZoneInfo:
    """The time zone of the scope's tenant."""
    return ZoneInfo(Tenant.objects.values_list("time_zone", flat=True).get(pk=require_scope()))


def _check(giver_id: int, lending: Lending) -> dict[int, str]:
    """The two people's handles. Raises CannotLend."""
    people = dict(Person.objects.filter(pk__in=[giver_id, lending.taker_id]).values_list("pk", "username"))
    if giver_id == lending.taker_id:
        raise CannotLend("Nobody lends authority to themselves. Choose somebody else.")
    for person_id, why in (
        (giver_id, "so there is no authority to lend"),
        (lending.taker_id, "and only a manager can use what is lent"),
    ):
        if Role.MANAGER not in authority.roles_of(person_id):
            raise CannotLend(f"{people.get(person_id, 'This person')} is no manager here, {why}.")
    if not lending.reason.strip():
        raise CannotLend("Say why: whoever reads a signature later has only your reason.")
    if len(lending.reason.strip()) > LONGEST_REASON or not _storable(lending.reason):
        raise CannotLend(f"Keep the reason under {LONGEST_REASON:,} characters of text.")
    if any(not name.strip() or len(name) > 100 or "\n" in name for name in lending.policies):
        raise CannotLend("A policy is named as it stands in the list of policies.")
    _check_cap(lending.most_amount, lending.most_currency)
    return people


def _storable(text: str) -> bool:
    """Whether a column takes it: no NUL, and nothing that is no character at all."""
    return "\0" not in text and text.encode("utf-8", "ignore").decode() == text


def _check_cap(amount: Decimal | None, currency: str) -> None:
    if amount is None and not currency:
        return
    if amount is None or not _CURRENCY.fullmatch(currency):
        raise CannotLend("A largest amount needs its currency, as in 5000.00 EUR.")
    if not amount.is_finite() or amount < 0 or amount >= MOST or amount != amount.quantize(Decimal("0.0001")):
        raise CannotLend("The largest amount is a number like 5000.00, not below zero.")


def _not_twice(giver_id: int, taker_id: int, span: Span, policies: tuple[str, ...]) -> None:
    live = Delegation.objects.filter(
        Q(starts_at__lt=span.ends_at) & Q(ends_at__gt=span.starts_at),
        giver_id=giver_id,
        taker_id=taker_id,
        revoked_at__isnull=True,
    )
    for other in live.select_related("taker"):
        named = set(other.policies.split("\n")) - {""}
        if not policies or not named or named & set(policies):
            until = other.ends_at.astimezone(zone_of_tenant())
            raise LentAlready(
                f"This is lent to {other.taker.username} already until {until:%-d %b %Y, %H:%M}. Revoke that first."
            )
