"""The time that the machine decides by: the database's. A host's clock may be wrong, and may jump.

An engine learns it each time that it renews its lease, and counts on from there by a clock that neither jumps nor
stops while the host sleeps. A process without an engine (the web, a command) has its host's.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.utils import timezone

_known: tuple[datetime, float] | None = None


def now() -> datetime:
    """The database's time, as near as this process can know it without asking."""
    if _known is None:
        return timezone.now()
    at, since = _known
    return at + timedelta(seconds=_steady() - since)


def learnt(at: datetime) -> None:
    """The database has just said that it is `at`."""
    global _known
    _known = at, _steady()


def _steady() -> float:
    """Seconds that go on through a suspension (Linux), and never jump."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
