"""How a receiver's statement files are read: what a mapping says, as one immutable value.

Every choice that a file leaves open is made here, by a person, and for the whole file: what separates columns, which is
which, how dates and amounts are written, which way a positive amount goes. Nothing falls back on anything else.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from babel.numbers import is_currency
from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from statements.dates import DateFormat
from statements.numbers import NumberFormat

MOST_COLUMNS = 200


class Column(StrEnum):
    """What a column of a file can be to us."""

    BOOKED = "booked_on"
    VALUE = "value_on"
    AMOUNT = "amount"
    PAID_IN = "paid_in"
    PAID_OUT = "paid_out"
    DIRECTION = "direction"
    CURRENCY = "currency"
    RECEIVERS_ID = "receivers_id"
    REFERENCE = "reference"
    COUNTERPARTY = "counterparty"
    COUNTERPARTY_ACCOUNT = "counterparty_account"
    ACCOUNT = "account"


LABELS = {
    Column.BOOKED: "Booked on",
    Column.VALUE: "Value date",
    Column.AMOUNT: "Amount",
    Column.PAID_IN: "Paid in",
    Column.PAID_OUT: "Paid out",
    Column.DIRECTION: "In or out",
    Column.CURRENCY: "Currency",
    Column.RECEIVERS_ID: "The receiver's own id of the line",
    Column.REFERENCE: "Reference",
    Column.COUNTERPARTY: "Counterparty",
    Column.COUNTERPARTY_ACCOUNT: "Account of the counterparty",
    Column.ACCOUNT: "Our account",
}

IDS = (Column.RECEIVERS_ID, Column.REFERENCE, Column.COUNTERPARTY_ACCOUNT, Column.ACCOUNT)
"""Columns whose digits are a name and no number: every one of them stays."""

Encoding = Literal["windows-1252", "iso-8859-15", "cp850", "mac-roman"]
Delimiter = Literal[";", ",", "\t", "|"]
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Word = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=50)]


class Terms(BaseModel):
    """A mapping. `columns` and `texts` name columns by their header, or by their place where there is none.

    `left_out`: a row whose first filled cell begins with one of these is no line. `positive`: which way an amount
    without a minus goes, where no column says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    encoding: Encoding = "windows-1252"
    delimiter: Delimiter
    header: bool = True
    columns: dict[Column, Name] = Field(max_length=len(Column))
    texts: tuple[Name, ...] = Field(default=(), max_length=20)
    dates: DateFormat
    numbers: NumberFormat
    positive: Literal["in", "out"] = "in"
    in_words: tuple[Word, ...] = Field(default=(), max_length=20)
    out_words: tuple[Word, ...] = Field(default=(), max_length=20)
    currency: str = ""
    left_out: tuple[Word, ...] = Field(default=(), max_length=20)
    time_zone: str

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if faults := _faults(self):
            raise ValueError(" ".join(faults))
        return self


def _faults(terms: Terms) -> list[str]:
    has = terms.columns.keys()
    faults = []
    if Column.BOOKED not in has:
        faults.append("Say which column has the day of the booking.")
    if (Column.AMOUNT in has) == bool({Column.PAID_IN, Column.PAID_OUT} & has):
        faults.append("Say which column has the amount: one, or one for paid in and one for paid out.")
    if Column.DIRECTION in has and not (terms.in_words and terms.out_words):
        faults.append("Say which words of the column “In or out” mean in, and which mean out.")
    if set(_folded(terms.in_words)) & set(_folded(terms.out_words)):
        faults.append("The same word cannot mean in and out.")
    if Column.DIRECTION in has and Column.AMOUNT not in has:
        faults.append("A column that says in or out goes with one column of amounts.")
    if (Column.CURRENCY in has) == bool(terms.currency):
        faults.append("Give the currency, or the column that has it, and not both.")
    if terms.currency and not is_currency(terms.currency):
        faults.append(f"{terms.currency} is no currency: three letters such as EUR are.")
    if any("\0" in name for name in _named(terms)):
        faults.append("The name of a column has a NUL in it: map by place instead, without a header.")
    if not terms.header and not all(n.isdigit() and 0 < int(n) <= MOST_COLUMNS for n in _named(terms)):
        faults.append("Without a header columns are named by their place: 1 is the first.")
    try:
        ZoneInfo(terms.time_zone)
    except (ZoneInfoNotFoundError, ValueError):
        faults.append(f"“{terms.time_zone}” is no time zone.")
    return faults


def _named(terms: Terms) -> tuple[str, ...]:
    return (*terms.columns.values(), *terms.texts)


def _folded(words: tuple[str, ...]) -> list[str]:
    return [w.casefold() for w in words]


def same_name(name: str) -> str:
    """What two spellings of a header have in common: case and white space do not tell columns apart."""
    return " ".join(name.split()).casefold()
