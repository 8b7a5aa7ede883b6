"""Times and people as sentences for people. Times are in the tenant's own zone."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from access.models import Tenant
from access.statements import Asked, Values


def clock(at: datetime, tenant_id: int) -> str:
    """To the second, with its zone: "Fri 13 Mar, 09:30:05 CET"."""
    return f"{_local(at, tenant_id):%a %-d %b, %H:%M:%S %Z}"


def until(at: datetime, tenant_id: int) -> str:
    """To the minute: "Fri 09:30"."""
    return f"{_local(at, tenant_id):%a %H:%M}"


def count(number: int, one: str, many: str) -> str:
    """ "one more approver", "3 more approvers"."""
    return f"one {one}" if number == 1 else f"{number} {many}"


def zone_asked(tenant_id: int) -> Asked:
    """What a time will ask to be said, to be asked `ahead`."""
    return _ZONE.asked(tenant_id)


def _local(at: datetime, tenant_id: int) -> datetime:
    ((zone,),) = _ZONE.all(tenant_id)
    return at.astimezone(ZoneInfo(zone))


_ZONE = Values(lambda tenant: Tenant.objects.filter(pk=tenant).values_list("time_zone"))
