"""Days and times that people type, by the clock of their organisation."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

from access.spans import day_begins, local


class NoMoment(Exception):
    """It is no day and no time; the message says how to write one."""


def read_moment(text: str, zone: ZoneInfo, *, end: bool = False) -> datetime:
    """A moment from 2026-12-24 or 2026-12-24T14:30. Of a day alone the beginning, as an end the end of it."""
    text = text.strip()
    try:
        if len(text) == len("2026-12-24"):
            day = date.fromisoformat(text)
            return day_begins(day + timedelta(days=1) if end else day, zone)
        wall = datetime.fromisoformat(text)
        if wall.tzinfo is None:
            return local(wall, zone)
    except (ValueError, OverflowError):
        pass
    raise NoMoment("Write a day, such as 2026-12-24, or a day and a time, such as 2026-12-24 14:30.")
