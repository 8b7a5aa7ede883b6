"""Dates as a file writes them, under the one format that its mapping names; no other is tried."""

from __future__ import annotations

import re
from datetime import date
from enum import StrEnum
from functools import cache

from statements.lines import Unreadable

EARLIEST, LATEST = 1970, 2199
_PARTS = {"YYYY": r"(?P<year>[0-9]{4})", "YY": r"(?P<short>[0-9]{2})", "MM": r"(?P<month>[0-9]{1,2})", "DD": r"(?P<day>[0-9]{1,2})"}  # fmt: skip
_TIME = r"(?:[T ][0-9:.,+\-Z ]*)?"


class DateFormat(StrEnum):
    """Year, month and day in the order in which they stand. A time of day after them is left out."""

    ISO = "YYYY-MM-DD"
    DAY_DOT = "DD.MM.YYYY"
    DAY_SLASH = "DD/MM/YYYY"
    MONTH_SLASH = "MM/DD/YYYY"
    DAY_DASH = "DD-MM-YYYY"
    MONTH_DASH = "MM-DD-YYYY"
    YEAR_SLASH = "YYYY/MM/DD"
    YEAR_DOT = "YYYY.MM.DD"
    DIGITS = "YYYYMMDD"
    DAY_DOT_SHORT = "DD.MM.YY"
    DAY_SLASH_SHORT = "DD/MM/YY"
    MONTH_SLASH_SHORT = "MM/DD/YY"
    YEAR_DASH_SHORT = "YY-MM-DD"


@cache
def _pattern(form: DateFormat) -> re.Pattern[str]:
    text = re.escape(form.value)
    for name, part in _PARTS.items():
        text = text.replace(name, part)
    if form is DateFormat.DIGITS:
        text = text.replace("{1,2}", "{2}")
    return re.compile(text + _TIME)


class Dates:
    """Reads dates of one format. The same few come again and again, so each is worked out once."""

    def __init__(self, form: DateFormat) -> None:
        self._form = form
        self._known: dict[str, date] = {}

    def read(self, text: str) -> date:
        """The day. Unreadable for whatever does not fit, and for days that no calendar has."""
        found = self._known.get(text)
        if found is None:
            found = read_date(text, self._form)
            if len(self._known) < 10_000:
                self._known[text] = found
        return found


def read_date(text: str, form: DateFormat) -> date:
    """The day. Unreadable for whatever does not fit, and for days that no calendar has."""
    text = text.strip()
    found = _pattern(form).fullmatch(text)
    if found is None:
        fitting = " or ".join(f.value for f in fitting_formats([text]))
        hint = f" It would be one as {fitting}: see the mapping." if fitting else ""
        raise Unreadable(
            f"is no date written as {form.value}.{hint}" if text else "is empty: a date is needed."
        )
    named = found.groupdict()
    year = int(named["year"]) if named.get("year") else 2000 + int(named["short"])
    if not EARLIEST <= year <= LATEST:
        raise Unreadable(f"is in the year {year}.")
    try:
        return date(year, int(named["month"]), int(named["day"]))
    except ValueError:
        raise Unreadable(f"is no day of the calendar, read as {form.value}.") from None


def fitting_formats(texts: list[str]) -> list[DateFormat]:
    """The formats under which every one of these is a day: more than one is an ambiguity that a person ends."""
    return [form for form in DateFormat if texts and all(_fits(t.strip(), form) for t in texts)]


def _fits(text: str, form: DateFormat) -> bool:
    if _pattern(form).fullmatch(text) is None:
        return False
    try:
        read_date(text, form)
    except Unreadable:
        return False
    return True
