"""Amounts as a file writes them, under the one format that its mapping names. Nothing is guessed from a value."""

from __future__ import annotations

import re
from decimal import Decimal
from enum import StrEnum
from functools import cache

from babel.numbers import get_currency_precision, get_currency_symbol, is_currency

from statements.lines import Unreadable

MINUS = frozenset(("-", "\N{MINUS SIGN}"))
_NO_DIGIT = re.compile("[^0-9]")
LARGEST = 10**15
"""Smallest units: beyond it a number is no amount but a reference in the wrong column."""
LONGEST = 40
"""Digits of an amount, with noughts before it."""


class NumberFormat(StrEnum):
    """By how it writes one thousand two hundred and thirty-four and a half."""

    DOT_COMMA = "1.234,50"
    COMMA_DOT = "1,234.50"
    SPACE_COMMA = "1 234,50"
    SPACE_DOT = "1 234.50"
    APOSTROPHE_DOT = "1'234.50"
    APOSTROPHE_COMMA = "1'234,50"
    COMMA = "1234,50"
    DOT = "1234.50"

    @property
    def point(self) -> str:
        return self.value[-3]

    @property
    def between(self) -> str:
        """What stands between thousands, as a class of a pattern, or ""."""
        return {
            " ": " \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}",
            "'": "'\N{RIGHT SINGLE QUOTATION MARK}",
        }.get(self.value[1], self.value[1] if not self.value[1].isdigit() else "")


@cache
def _pattern(form: NumberFormat) -> re.Pattern[str]:
    whole = r"[0-9]+"
    if form.between:
        between = f"[{re.escape(form.between)}]"
        whole = rf"[0-9]{{1,3}}(?:{between}[0-9]{{3}})+|[0-9]+"
    return re.compile(f"([-+\N{MINUS SIGN}]?) ?({whole})(?:{re.escape(form.point)}([0-9]+))?([-+]?)")


def minor_units(text: str, form: NumberFormat, currency: str) -> int:
    """The amount with its sign, in the smallest unit. Unreadable for whatever does not fit the format to the letter."""
    pattern = _pattern(form)
    found = pattern.fullmatch(text) or pattern.fullmatch(_without_currency(text.strip(), currency))
    if found is None:
        raise Unreadable(_why_not(text.strip(), form))
    before, whole, parts, after = found.groups("")
    if before and after:
        raise Unreadable("has two signs.")
    digits = decimals(currency)
    if len(parts) > digits:
        raise Unreadable(
            f"has {len(parts)} decimals; {currency} has {digits}. Does the point stand between thousands?"
        )
    written = (whole if whole.isdigit() else _NO_DIGIT.sub("", whole)) + parts.ljust(digits, "0")
    # Looked at before it is worked out: Python itself refuses a number of thousands of digits.
    amount = int(written) if len(written) <= LONGEST else LARGEST + 1
    if amount > LARGEST:
        raise Unreadable("is too large for an amount: is this the right column?")
    return -amount if before in MINUS or after == "-" else amount


def fitting_numbers(texts: list[str]) -> list[NumberFormat]:
    """The formats under which every one of these is a number, those that know thousands first."""
    return [f for f in NumberFormat if texts and all(_pattern(f).fullmatch(t.strip()) for t in texts)]


@cache
def decimals(currency: str) -> int:
    """How many a currency has. Unreadable for what is none."""
    if not is_currency(currency):
        raise Unreadable("is no currency: three letters such as EUR are.")
    return get_currency_precision(currency)


def in_units(amount: int, currency: str) -> Decimal:
    """Of smallest units, exactly."""
    return Decimal(amount).scaleb(-get_currency_precision(currency))


def _without_currency(text: str, currency: str) -> str:
    for name in (currency, _symbol(currency)):
        if text.startswith(name):
            return text[len(name) :].strip()
        if text.endswith(name):
            return text[: -len(name)].strip()
    return text


@cache
def _symbol(currency: str) -> str:
    return get_currency_symbol(currency, locale="en")


def _why_not(text: str, form: NumberFormat) -> str:
    if not text:
        return "is empty: an amount is needed."
    fitting = " or ".join(f.value for f in fitting_numbers([text]))
    if fitting:
        return f"is no number written as {form.value}. It would be one as {fitting}: see the mapping."
    return f"is no number written as {form.value}."
