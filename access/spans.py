"""Times that people name beforehand: from when until when somebody is away, or lends their authority. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from access.refusals import Unprocessable

LONGEST = timedelta(days=366)


class BadSpan(Unprocessable):
    """The time is over, has no length, or is too long."""


@dataclass(frozen=True, slots=True)
class Span:
    """From a moment until another, which is no longer in it."""

    starts_at: datetime
    ends_at: datetime

    def checked(self, now: datetime, zone: ZoneInfo) -> Self:
        """The same, beginning now where it began earlier today; BadSpan where it is none to be written."""
        if self.ends_at <= self.starts_at:
            raise BadSpan("The end has to come after the beginning.")
        if self.ends_at <= now:
            raise BadSpan("That time is over. Choose an end that is still to come.")
        if self.starts_at.astimezone(zone).date() < now.astimezone(zone).date():
            raise BadSpan("It cannot begin in the past. Choose today or a later day.")
        if self.ends_at - self.starts_at > LONGEST:
            raise BadSpan("That is longer than a year. Choose an earlier end; it can be noted anew.")
        return type(self)(max(self.starts_at, now), self.ends_at)


def day_begins(day: date, zone: ZoneInfo) -> datetime:
    """The first moment of a day by a zone's clock."""
    return local(datetime.combine(day, time()), zone)


def local(wall: datetime, zone: ZoneInfo) -> datetime:
    """A moment by a zone's wall clock. A time that a clock change leaves out is taken after the gap; one that comes
    twice, the first time."""
    return datetime.combine(wall.date(), wall.time(), zone).astimezone(ZoneInfo("UTC"))
