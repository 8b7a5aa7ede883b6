"""Ages, time left and time stamps in words. Two units at most, joined by no-break spaces; never an estimate."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from django.utils import timezone

from web import reading

NBSP = "\N{NO-BREAK SPACE}"
SOON = timedelta(hours=1)
WITHIN_THE_DAY = timedelta(hours=12)
"""Up to here time left is a duration; beyond it a weekday and a time are easier to plan with."""


def span_words(span: timedelta) -> str:
    """41 s, 23 m, 5 h 12 m, 1 d 2 h."""
    seconds = max(0, int(span.total_seconds()))
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if days:
        return _two(days, "d", hours % 24, "h", pad=1)
    if hours:
        return _two(hours, "h", minutes % 60, "m", pad=2)
    if minutes:
        return f"{minutes}{NBSP}m"
    return f"{seconds}{NBSP}s"


def left_words(until: datetime, now: datetime, soon: timedelta = SOON) -> tuple[str, str]:
    """The time left, and how urgent that is: "late" past the limit, "soon" below `soon`, else nothing."""
    left = until - now
    if left <= timedelta(0):
        return f"{span_words(-left)} over", "late"
    if left < soon:
        return f"{span_words(left)} left", "soon"
    if left < WITHIN_THE_DAY:
        return f"{span_words(left)} left", ""
    return stamp_words(until, now, seconds=False), ""


def stamp_words(moment: datetime, now: datetime, *, seconds: bool = True) -> str:
    """14:31:40 today, Wed 17:43 within a week, 12 Mar 09:30 this year, 12 Mar 2025 before."""
    at, today = timezone.localtime(moment), timezone.localtime(now).date()
    if (theirs := _as_the_reader(at, today, seconds=seconds)) is not None:
        return theirs
    if at.date() == today:
        return at.strftime("%H:%M:%S" if seconds else "%H:%M")
    if abs((at.date() - today).days) < 7:
        return at.strftime(f"%a{NBSP}%H:%M")
    if at.year == today.year:
        return at.strftime(f"{at.day}{NBSP}%b{NBSP}%H:%M")
    return at.strftime(f"{at.day}{NBSP}%b{NBSP}%Y")


def full_words(moment: datetime) -> str:
    """Thu 12 Mar, 12:19:03: what a slip prints."""
    at = timezone.localtime(moment)
    if (day := reading.day_words(at, "MMMEd")) is not None:
        return f"{day}, {reading.clock_words(at, seconds=True)}"
    return at.strftime(f"%a{NBSP}{at.day}{NBSP}%b, %H:%M:%S")


def exact_words(moment: datetime) -> str:
    """Thu 12 Mar 2026, 12:19:03 UTC: what a title says."""
    at = timezone.localtime(moment)
    if (day := reading.day_words(at, "yMMMEd")) is not None:
        return f"{day}, {reading.clock_words(at, seconds=True)} {at:%Z}"
    return at.strftime(f"%a {at.day} %b %Y, %H:%M:%S %Z")


def stored_words(moment: datetime) -> str:
    """2026-03-12T12:19:03.120000Z: what is stored, in no reader's order."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _as_the_reader(at: datetime, today: date, *, seconds: bool) -> str | None:
    """The same steps in the reader's order; None where that is ours."""
    clock = reading.clock_words(at, seconds=seconds and at.date() == today)
    if clock is None or at.date() == today:
        return clock
    if abs((at.date() - today).days) < 7:
        return f"{reading.day_words(at, 'E')}{NBSP}{clock}"
    if at.year == today.year:
        return f"{reading.day_words(at, 'MMMd')}{NBSP}{clock}"
    return reading.day_words(at, "yMMMd")


def _two(large: int, large_unit: str, small: int, small_unit: str, *, pad: int) -> str:
    first = f"{large}{NBSP}{large_unit}"
    return f"{first}{NBSP}{small:0{pad}d}{NBSP}{small_unit}" if small else first
