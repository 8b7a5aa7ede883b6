"""One line beside one operation: what is equal, what differs and by how much, in words. Pure; knows no rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum

from dispatch.minor import as_amount
from statements.matching.settings import Settings
from web.amounts import sign_and_figures


@dataclass(frozen=True, slots=True)
class Booked:
    """What one line says. `folded` is its reference as `statements_reference` folds it."""

    line_id: int
    amount: int
    currency: str
    direction: str
    booked_on: date
    account: str = ""
    reference: str = ""
    folded: str = ""
    receivers_id: str = ""
    text: str = ""
    counterparty: str = ""

    @property
    def words(self) -> str:
        """Everything on it that somebody has written."""
        parts = (self.reference, self.receivers_id, self.text, self.counterparty)
        return " ".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Expected:
    """What one operation was approved to do. `folded` is its record, folded likewise."""

    operation_id: int
    label: str
    amount: int | None
    currency: str
    key: str
    sent_on: date | None
    account: str = ""
    record: str = ""
    folded: str = ""
    receipt_id: str = ""
    title: str = ""
    recipient: str = ""
    state: str = ""


class Verdict(StrEnum):
    """How two values compare."""

    EQUAL = "equal"
    NEAR = "near"  # not equal, but inside what the receiver's settings forgive
    DIFFERS = "differs"
    MISSING = "missing"  # one side does not say


@dataclass(frozen=True, slots=True)
class Field:
    """One thing that was compared, with both values as they are shown and kept."""

    name: str
    booked: str
    expected: str
    verdict: Verdict
    reason: str


def compare(booked: Booked, expected: Expected, settings: Settings) -> tuple[Field, ...]:
    """Every field of the ladder, in the order in which they count."""
    return (
        _key(booked, expected),
        _plain("receiver’s id", booked.receivers_id, expected.receipt_id),
        _reference(booked, expected),
        _amount(booked, expected, settings),
        _plain("currency", booked.currency, expected.currency),
        _direction(booked, settings),
        _plain("account", booked.account, expected.account),
        _day(booked, expected, settings),
    )


def reasons(fields: tuple[Field, ...]) -> str:
    """The comparison as one clause: "reference equal, amount equal, 1 day later"."""
    return ", ".join(f.reason for f in fields if f.reason)


def verdict_of(fields: tuple[Field, ...], name: str) -> Verdict:
    return next(f.verdict for f in fields if f.name == name)


def money(minor: int | None, currency: str) -> str:
    """As pages write it: "EUR 1,204.00"."""
    if minor is None:
        return "no amount"
    _, figures = sign_and_figures(as_amount(minor, currency), currency)
    return f"{currency} {figures}"


def _key(booked: Booked, expected: Expected) -> Field:
    named = bool(expected.key) and expected.key.upper() in booked.words.upper()
    verdict = Verdict.EQUAL if named else Verdict.MISSING
    return Field(
        "our key", expected.key if named else "", expected.key, verdict, "names our key" if named else ""
    )


def _reference(booked: Booked, expected: Expected) -> Field:
    if not booked.folded or not expected.folded:
        return Field("reference", booked.reference, expected.record, Verdict.MISSING, "no reference")
    if booked.folded == expected.folded:
        return Field("reference", booked.reference, expected.record, Verdict.EQUAL, "reference equal")
    return Field("reference", booked.reference, expected.record, Verdict.DIFFERS, "another reference")


def _amount(booked: Booked, expected: Expected, settings: Settings) -> Field:
    shown = money(booked.amount, booked.currency), money(expected.amount, expected.currency)
    if expected.amount is None:
        return Field("amount", *shown, Verdict.MISSING, "no amount was approved")
    if booked.currency != expected.currency:
        return Field("amount", *shown, Verdict.DIFFERS, "")
    off = booked.amount - expected.amount
    if off == 0:
        return Field("amount", *shown, Verdict.EQUAL, "amount equal")
    verdict = Verdict.NEAR if abs(off) <= settings.tolerance else Verdict.DIFFERS
    side = "more" if off > 0 else "less"
    return Field("amount", *shown, verdict, f"{money(abs(off), booked.currency)} {side}")


def _direction(booked: Booked, settings: Settings) -> Field:
    same = booked.direction == settings.direction
    verdict, reason = (Verdict.EQUAL, "") if same else (Verdict.DIFFERS, "money went the other way")
    return Field("direction", booked.direction, settings.direction, verdict, reason)


def _day(booked: Booked, expected: Expected, settings: Settings) -> Field:
    if expected.sent_on is None:
        return Field("day", booked.booked_on.isoformat(), "", Verdict.MISSING, "never sent by us")
    days = (booked.booked_on - expected.sent_on).days
    shown = booked.booked_on.isoformat(), expected.sent_on.isoformat()
    verdict = (
        Verdict.EQUAL
        if days == 0
        else Verdict.NEAR
        if -1 <= days <= settings.window_days
        else Verdict.DIFFERS
    )
    return Field("day", *shown, verdict, _days_apart(days))


def _days_apart(days: int) -> str:
    if days == 0:
        return "same day"
    count = "1 day" if abs(days) == 1 else f"{abs(days):,} days"
    return f"{count} later" if days > 0 else f"{count} before it was sent"


def _plain(name: str, booked: str, expected: str) -> Field:
    if not booked or not expected:
        return Field(name, booked, expected, Verdict.MISSING, "")
    if booked == expected:
        said = "" if name in ("currency", "account") else f"{name} equal"
        return Field(name, booked, expected, Verdict.EQUAL, said)
    return Field(name, booked, expected, Verdict.DIFFERS, f"another {name}")
