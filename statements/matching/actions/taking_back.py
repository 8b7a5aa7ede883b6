"""Taking back that a line was set aside: it is unclaimed again, and somebody is asked about it."""

from __future__ import annotations

from datetime import datetime

from access import authority
from access.tenancy import acting
from access.tenant_journal import record
from statements.locks import lock_statements
from statements.matching import asides
from statements.matching.actions.matching import LONGEST_REASON, WHO, ReasonMissing
from statements.matching.asides import NotSetAside
from web.redaction import hide


def take_back_aside(*, tenant_id: int, line_id: int, person_id: int, reason: str, now: datetime) -> None:
    """Have a line that was set aside be unclaimed again; what was said stays readable. `line.taken_back`.

    An operator. Locks the line's statement; of two the second is told. Raises NotPermitted, NotSetAside, ReasonMissing.
    """
    with acting(tenant_id):
        actor = authority.require(person_id, *WHO)
        lock_statements([line_id])
        aside = asides.aside_of(line_id)
        if aside is None:
            raise NotSetAside("This line is not set aside (any more). Nothing was done now.")
        if not reason.strip():
            raise ReasonMissing("Say why the line is to be looked at again.")
        asides.end(aside, person_id=person_id, reason=hide(reason).strip()[:LONGEST_REASON], now=now)
        evidence = {
            "statement": aside.statement_id,
            "line": line_id,
            "set_aside": aside.pk,
            "kind": aside.kind,
        }
        record(event="line.taken_back", actor=actor, evidence=evidence)
