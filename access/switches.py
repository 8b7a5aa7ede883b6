"""What stops every send of an organisation: it is revoked, or dispatch is shut since its rows came out of a backup."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db import connection
from django.db.models import Q

from access.models import Tenant
from access.statements import Values


@dataclass(frozen=True, slots=True)
class Revocation:
    """Since when, and why."""

    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class Restored:
    """When the rows were put back, until when their journals know what happened, and since when nothing is sent for it.

    `shut_at` is None once dispatch was opened; the rest stays.
    """

    at: datetime
    known_until: datetime
    shut_at: datetime | None


@dataclass(frozen=True, slots=True)
class Switches:
    """Both of an organisation."""

    revocation: Revocation | None = None
    restored: Restored | None = None


def switches_of(tenant_id: int) -> Switches:
    """What is in force. One query."""
    found = _SWITCHES.first(tenant_id)
    if found is None:
        return Switches()
    revoked_at, reason, restored_at, known_until, shut_at = found
    return Switches(
        None if revoked_at is None else Revocation(revoked_at, reason),
        None if restored_at is None else Restored(restored_at, known_until, shut_at),
    )


def revocation_of(tenant_id: int) -> Revocation | None:
    """The revocation in force, or None. One query."""
    return switches_of(tenant_id).revocation


def was_copied() -> bool:
    """Whether these rows were put back from a dump and nobody has taken note of it yet (`access/copied_sql.py`)."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT counterfoil_was_copied()")
        return bool(cursor.fetchone()[0])


_SWITCHES = Values(
    lambda tenant: Tenant.objects.filter(
        Q(revoked_at__isnull=False) | Q(restored_at__isnull=False), pk=tenant
    ).values_list("revoked_at", "revoke_reason", "restored_at", "known_until", "shut_at")
)
