"""Revoking an organisation and restoring it: a command of the installation's operator, no page of anybody's."""

from __future__ import annotations

from datetime import datetime

from access import tenant_journal
from access.locks import lock_tenant
from access.refusals import Conflict, Unprocessable
from access.roles import Actor, ActorKind
from access.tenancy import acting

OPERATOR = Actor(ActorKind.ADMIN, "a command on the host")


class RevocationUnchanged(Conflict):
    """The organisation is revoked already, or is not revoked."""


class RevocationReasonMissing(Unprocessable):
    """Nobody said why."""


def revoke_tenant(*, tenant_id: int, reason: str, now: datetime) -> None:
    """Stop every send of an organisation; look-ups, confirmations and closings go on. Journalled as `tenant.revoked`.

    Locks the organisation's row. Raises RevocationUnchanged, RevocationReasonMissing.
    """
    reason = reason.strip()
    if not reason:
        raise RevocationReasonMissing("Say why: whoever finds its jobs waiting has only your reason.")
    with acting(tenant_id):
        tenant = lock_tenant(tenant_id)
        if tenant.revoked_at is not None:
            raise RevocationUnchanged(f"{tenant.slug} is revoked already: {tenant.revoke_reason}")
        tenant.revoked_at, tenant.revoke_reason = now, reason[:1000]
        tenant.save(update_fields=["revoked_at", "revoke_reason"])
        tenant_journal.record(event="tenant.revoked", actor=OPERATOR, evidence={"reason": reason[:1000]})


def restore_tenant(*, tenant_id: int, now: datetime) -> None:
    """Let sends go on; what waits looks again within a minute. Journalled as `tenant.restored`.

    Locks the organisation's row. Raises RevocationUnchanged.
    """
    with acting(tenant_id):
        tenant = lock_tenant(tenant_id)
        if tenant.revoked_at is None:
            raise RevocationUnchanged(f"{tenant.slug} is not revoked.")
        evidence = {"revoked_at": tenant.revoked_at.isoformat(), "reason": tenant.revoke_reason}
        tenant.revoked_at, tenant.revoke_reason = None, ""
        tenant.save(update_fields=["revoked_at", "revoke_reason"])
        tenant_journal.record(event="tenant.restored", actor=OPERATOR, evidence=evidence)
