"""Amounts in the smallest unit of their currency. Pure."""

from __future__ import annotations

from decimal import Decimal

from babel.numbers import get_currency_precision


def as_minor(amount: Decimal, currency: str) -> int | None:
    """An amount in its smallest unit; None where it has more decimals than its currency."""
    scaled = amount.scaleb(get_currency_precision(currency))
    return int(scaled) if scaled == scaled.to_integral_value() else None


def as_amount(minor: int, currency: str) -> Decimal:
    """What `as_minor` was given."""
    return Decimal(minor).scaleb(-get_currency_precision(currency))
