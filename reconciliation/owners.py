"""Who works on cases now. A case of somebody who has left, or does so no longer, is nobody's again, and says whose it was."""

from __future__ import annotations

from django.db.models import Q

from access.models import Membership
from reconciliation.situation import SECONDERS


def at_work() -> frozenset[int]:
    """The active people who may work on cases in the scope's tenant. One query."""
    roles = [role.value for role in SECONDERS]
    held = Membership.objects.filter(role__in=roles, ended_at__isnull=True, person__is_active=True)
    return frozenset(held.values_list("person_id", flat=True))


def nobodys(working: frozenset[int]) -> Q:
    """Cases that no one of them has."""
    return Q(assignee__isnull=True) | ~Q(assignee__in=sorted(working))
