"""Types for input models: values that mean the same to a person, to JSON and to the database."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Annotated, Any

from babel.numbers import get_currency_precision, list_currencies
from pydantic import AfterValidator, BeforeValidator, PlainSerializer, StringConstraints, WithJsonSchema

_AMOUNT = re.compile(r"-?(0|[1-9]\d{0,14})(\.\d{1,4})?")


def _amount(value: Any) -> Decimal:
    if isinstance(value, Decimal) and value.is_finite():
        # An author's decimal is held to what its text can be: 1E+3 is 1000, minus zero and thirty digits are refused.
        value = f"{value:f}"
    if not isinstance(value, str) or not _AMOUNT.fullmatch(value):
        raise ValueError('write an amount as text with a point, such as "1250.00", not as a number')
    number = Decimal(value)
    if number.is_zero() and number.is_signed():
        raise ValueError("minus zero is not an amount")
    return number


def _known_currency(code: str) -> str:
    if code not in list_currencies():
        raise ValueError(f"{code} is not a currency; use its three letters, such as EUR")
    return code


Amount = Annotated[
    Decimal,
    BeforeValidator(_amount),
    PlainSerializer(lambda d: f"{d:f}", return_type=str),
    WithJsonSchema({"type": "string", "pattern": _AMOUNT.pattern, "examples": ["1250.00"]}),
]
"""A decimal amount, sent and stored as a string. Floats, exponents and minus zero are refused."""

Currency = Annotated[
    str, StringConstraints(min_length=3, max_length=3, pattern="^[A-Z]{3}$"), AfterValidator(_known_currency)
]
"""An ISO 4217 code."""


def check_decimals(amount: Decimal, currency: str) -> None:
    """Raise ValueError when the amount has more decimals than its currency, which is never rounded away."""
    places = get_currency_precision(currency)
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and -exponent > places and amount != round(amount, places):
        raise ValueError(f"{amount} has more decimals than {currency} has ({places})")
