"""Amounts of money in figures and in words. Decimals only: a float has already lost the amount."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from babel.numbers import get_currency_name, get_currency_precision, get_currency_symbol

from web import reading

NBSP = "\N{NO-BREAK SPACE}"
MINUS = "\N{MINUS SIGN}"

SMALL_CHANGE = {
    "EUR": ("cent", "cents"),
    "USD": ("cent", "cents"),
    "CAD": ("cent", "cents"),
    "AUD": ("cent", "cents"),
    "GBP": ("penny", "pence"),
    "CHF": ("centime", "centimes"),
    "NOK": ("øre", "øre"),
    "SEK": ("öre", "öre"),
    "DKK": ("øre", "øre"),
    "KWD": ("fils", "fils"),
    "BHD": ("fils", "fils"),
}
"""Names of the smaller unit. A currency that is not here gets a fraction, as on a cheque: "and 50/100"."""
_TYPED = re.compile(r"-?[0-9]{1,20}(\.[0-9]{1,20})?")


def as_decimal(amount: Decimal | int | str) -> Decimal:
    """The amount, exactly. Raises TypeError for a float and ValueError for what is no finite number."""
    if isinstance(amount, float | bool):
        raise TypeError(f"an amount is a Decimal, an int or a string, not {type(amount).__name__}")
    try:
        value = Decimal(amount)
    except InvalidOperation:
        raise ValueError(f"not an amount: {amount!r}") from None
    if not value.is_finite():
        raise ValueError(f"not an amount: {amount!r}")
    return value


def typed(text: str) -> Decimal:
    """An amount as somebody typed it: digits and one dot, "4800.00". Raises ValueError for all else, 1e3 and ١٢ too."""
    if not _TYPED.fullmatch(text.strip()):
        raise ValueError("Enter the amount in figures, such as 4800.00.")
    return Decimal(text.strip())


def sign_and_figures(amount: Decimal, currency: str) -> tuple[str, str]:
    """("€", "48,200.00"). Digits beyond those of the currency are kept, because a slip never rounds."""
    exponent = amount.as_tuple().exponent
    given = -exponent if isinstance(exponent, int) and amount != amount.to_integral_value() else 0
    digits = max(get_currency_precision(currency), given)
    minus = MINUS if amount < 0 else ""
    return minus + get_currency_symbol(currency, locale="en"), reading.figures(
        f"{amount.copy_abs():.{digits}f}"
    )


def rounded_cost(cost: Decimal) -> Decimal:
    """Cents, or as many decimals as it takes to show that it is more than nothing."""
    if not cost or abs(cost) >= Decimal("0.005"):
        return cost.quantize(Decimal("0.01"), rounding=ROUND_HALF_UP)
    return cost.quantize(Decimal(1).scaleb(cost.adjusted()), rounding=ROUND_HALF_UP)


def amount_in_words(amount: Decimal | int | str, currency: str) -> str:
    """Forty-eight thousand two hundred euros; twelve euros and fifty cents."""
    value = as_decimal(amount)
    # Not abs() and %: those round to 28 digits.
    whole = int(value.copy_abs())
    rest = Decimal(f"0.{format(value.copy_abs(), 'f').partition('.')[2] or '0'}")
    words = f"{_number(whole)} {get_currency_name(currency, count=whole, locale='en')}"
    if rest:
        words += f" and {_small_change(rest, currency)}"
    return _capital(f"minus {words}" if value < 0 else words)


def _small_change(rest: Decimal, currency: str) -> str:
    units = 10 ** get_currency_precision(currency)
    count = rest * units
    if count != count.to_integral_value():
        return f"{format(count.normalize(), 'f')}/{units}"
    if currency not in SMALL_CHANGE:
        return f"{int(count)}/{units}"
    one, many = SMALL_CHANGE[currency]
    return f"{_number(int(count))} {one if count == 1 else many}"


def _number(value: int) -> str:
    from num2words import num2words  # it brings every language along, which only who writes a slip should pay

    return str(num2words(value, lang="en")).replace(",", "")


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]
