"""Messages that were delivered a while ago go, but not one that a case asks, or asked, about: it is the case's evidence."""

from __future__ import annotations

from outbox import pruning
from workflows.errands import Errand

KEPT = "EXISTS (SELECT FROM reconciliation_case c WHERE c.tenant_id = m.tenant_id AND c.message_id = m.id)"


def turn(tenant_id: int, message_id: int, worker: str) -> bool:
    """Delete some of the tenant's; whether there are more."""
    return pruning.prune(tenant_id, KEPT) == pruning.AT_ONCE


ERRAND = Errand("old messages", pruning.find(KEPT), turn)
