"""Opening dispatch after a restore: a person's decision, once nothing is left that nobody looks after."""

from __future__ import annotations

from datetime import datetime

from access import authority, tenant_journal
from access.locks import lock_tenant
from access.refusals import Conflict, Unprocessable
from access.switches import switches_of
from access.tenancy import acting
from reconciliation.restored import Left, left_by
from reconciliation.situation import SECONDERS


class DispatchIsOpen(Conflict):
    """Nothing is shut."""


class NotLookedAfter(Conflict):
    """Something that may have been sent since the backup has no outcome, and is nobody's."""


class OpeningReasonMissing(Unprocessable):
    """Nobody said why it may go on."""


def open_dispatch(*, tenant_id: int, person_id: int, reason: str, now: datetime) -> Left:
    """Let an organisation's sends go on after a restore; what waits looks again within a minute. `dispatch.opened`.

    Operators and admins. Locks the organisation's row; the database refuses the same once more. What is left goes on as
    the cases of those who have them, and held jobs stay held. Raises NotPermitted, DispatchIsOpen, NotLookedAfter,
    OpeningReasonMissing.
    """
    reason = reason.strip()
    if not reason:
        raise OpeningReasonMissing(
            "Say why: whoever is asked later what was sent twice has only your reason."
        )
    with acting(tenant_id):
        tenant = lock_tenant(tenant_id)
        actor = authority.require(person_id, *SECONDERS)
        restored = switches_of(tenant_id).restored
        if restored is None or restored.shut_at is None:
            raise DispatchIsOpen(f"Dispatch of {tenant.slug} is not shut.")
        left = left_by(restored)
        if refused := why_not(left):
            raise NotLookedAfter(refused)
        tenant.shut_at = None
        tenant.save(update_fields=["shut_at"])
        evidence = {
            "reason": reason[:1000],
            "known_until": restored.known_until.isoformat(),
            "shut_at": restored.shut_at.isoformat(),
            "without_outcome": left.without_outcome,
            "held": left.held,
        }
        tenant_journal.record(event="dispatch.opened", actor=actor, evidence=evidence)
        return left


def why_not(left: Left) -> str:
    """What stands in the way, in a sentence, or ""."""
    if left.not_looked_at:
        return (
            f"{_operations(left.not_looked_at)} not been looked at since the restore: the workers do that, once nothing else"
            " is in doubt about its record."
        )
    if left.nobodys:
        what = "its case, or assign it" if left.nobodys == 1 else "their cases, or assign each"
        return f"{_operations(left.nobodys)} no outcome and no owner: answer {what} to the person who will."
    return ""


def _operations(count: int) -> str:
    return "1 operation has" if count == 1 else f"{count:,} operations have"
