"""Amounts in the smallest unit of their currency: whole numbers, which databases add up and compare exactly."""

from __future__ import annotations

from decimal import Decimal

from babel.numbers import get_currency_precision

from approvals import canonical, document


def amounts_of(text: str) -> dict[int, tuple[int | None, str]]:
    """Each operation's amount and currency by its ordinal, as a signed document has them; none where it cannot be read.

    The document writes money in the decimals of its currency, so nothing is rounded.
    """
    try:
        operations = document.read(text)["operations"]
    except canonical.NotCanonical:
        return {}
    return {o["ordinal"]: _minor(o.get("amount"), o.get("currency") or "") for o in operations}


def as_minor(amount: Decimal, currency: str) -> int | None:
    """An amount in its smallest unit; None where it has more decimals than its currency."""
    scaled = amount.scaleb(get_currency_precision(currency))
    return int(scaled) if scaled == scaled.to_integral_value() else None


def as_amount(minor: int, currency: str) -> Decimal:
    """What `as_minor` was given."""
    return Decimal(minor).scaleb(-get_currency_precision(currency))


def _minor(amount: str | None, currency: str) -> tuple[int | None, str]:
    if amount is None or not currency:
        return None, ""
    minor = as_minor(Decimal(amount), currency)
    return (None, "") if minor is None else (minor, currency)
