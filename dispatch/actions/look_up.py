"""A person asks a receiver what became of an operation. Safe at any time: a look-up changes nothing there."""

from __future__ import annotations

from datetime import datetime

from access import authority
from access.refusals import Conflict
from access.roles import Role
from access.tenancy import reading
from dispatch import lookups
from dispatch.lookups import LookedUp


class NothingToAsk(Conflict):
    """The receiver's contract offers no look-up."""


def look_up(*, tenant_id: int, operation_id: int, person_id: int, now: datetime) -> LookedUp:
    """Ask now, keep the answer as an observation, and settle the operation where the contract makes that a proof.

    Operators and admins. Locks job → operations after the call, nothing during it. Raises NoSuchOperation,
    NotPermitted, NothingToAsk.
    """
    with reading(tenant_id):
        actor = authority.require(person_id, Role.OPERATOR, Role.ADMIN)
    try:
        return lookups.look(tenant_id=tenant_id, operation_id=operation_id, actor=actor, now=now)
    except lookups.NoLookup as none:
        raise NothingToAsk(str(none)) from none
