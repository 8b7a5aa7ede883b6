"""Whether an organisation is revoked: nothing is sent for it until it is restored. Looked up wherever a send starts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from access.models import Tenant
from access.statements import Values


@dataclass(frozen=True, slots=True)
class Revocation:
    """Since when, and why."""

    at: datetime
    reason: str


def revocation_of(tenant_id: int) -> Revocation | None:
    """The revocation in force, or None. One query."""
    found = _REVOKED.first(tenant_id)
    return None if found is None else Revocation(*found)


_REVOKED = Values(
    lambda tenant: Tenant.objects.filter(pk=tenant, revoked_at__isnull=False).values_list(
        "revoked_at", "revoke_reason"
    )
)
