"""Numbers and dates under the one format that a mapping names: what fits is exact, what does not is refused with a hint."""

from __future__ import annotations

from datetime import date

import pytest

from statements.dates import DateFormat, fitting_formats, read_date
from statements.lines import Unreadable
from statements.numbers import NumberFormat, fitting_numbers, minor_units

DOT_COMMA, COMMA_DOT = NumberFormat.DOT_COMMA, NumberFormat.COMMA_DOT


@pytest.mark.parametrize(
    ("text", "form", "currency", "units"),
    [
        ("1.000", DOT_COMMA, "EUR", 100_000),
        ("1.355,90", DOT_COMMA, "EUR", 135_590),
        ("-4.711,98", DOT_COMMA, "EUR", -471_198),
        ("4711,98-", DOT_COMMA, "EUR", -471_198),
        ("\N{MINUS SIGN}0,05", DOT_COMMA, "EUR", -5),
        ("+1.234.567", DOT_COMMA, "EUR", 123_456_700),
        ("-110.7", COMMA_DOT, "EUR", -11_070),
        ("1'000.00", NumberFormat.APOSTROPHE_DOT, "CHF", 100_000),
        ("1\N{NARROW NO-BREAK SPACE}000,00", NumberFormat.SPACE_COMMA, "EUR", 100_000),
        ("€ 12.50", COMMA_DOT, "EUR", 1_250),
        ("12.50 EUR", COMMA_DOT, "EUR", 1_250),
        ("1,000", COMMA_DOT, "JPY", 1_000),
        ("1.234", NumberFormat.DOT, "KWD", 1_234),
        ("0,00", DOT_COMMA, "EUR", 0),
    ],
)
def test_an_amount_is_exactly_what_its_format_says(
    text: str, form: NumberFormat, currency: str, units: int
) -> None:
    assert minor_units(text, form, currency) == units


@pytest.mark.parametrize(
    ("text", "form", "currency", "hint"),
    [
        ("173,900", DOT_COMMA, "EUR", "has 3 decimals; EUR has 2"),
        ("1.000", NumberFormat.DOT, "EUR", "has 3 decimals; EUR has 2"),
        ("1.000", NumberFormat.COMMA, "EUR", "It would be one as 1.234,50"),
        ("1.00,00", DOT_COMMA, "EUR", "is no number written as 1.234,50."),
        ("12.50", DOT_COMMA, "EUR", "1234.50: see the mapping."),
        ("0.5", NumberFormat.DOT, "JPY", "has 1 decimals; JPY has 0"),
        ("", DOT_COMMA, "EUR", "is empty: an amount is needed."),
        ("-5,00-", DOT_COMMA, "EUR", "has two signs"),
        ("(5,00)", DOT_COMMA, "EUR", "is no number"),
        ("n/a", DOT_COMMA, "EUR", "is no number"),
        ("NaN", COMMA_DOT, "EUR", "is no number"),
        ("1e3", COMMA_DOT, "EUR", "is no number"),
        ("١٢", COMMA_DOT, "EUR", "is no number"),
        ("12.50 USD", COMMA_DOT, "EUR", "is no number"),
        ("1" * 20, COMMA_DOT, "EUR", "too large"),
    ],
)
def test_what_does_not_fit_to_the_letter_is_refused_and_never_nought(
    text: str, form: NumberFormat, currency: str, hint: str
) -> None:
    with pytest.raises(Unreadable) as refused:
        minor_units(text, form, currency)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("text", "form", "day"),
    [
        ("03/04/2026", DateFormat.MONTH_SLASH, date(2026, 3, 4)),
        ("03/04/2026", DateFormat.DAY_SLASH, date(2026, 4, 3)),
        ("3.8.2026", DateFormat.DAY_DOT, date(2026, 8, 3)),
        ("20260803", DateFormat.DIGITS, date(2026, 8, 3)),
        ("01.02.26", DateFormat.DAY_DOT_SHORT, date(2026, 2, 1)),
        ("2026-08-03T23:59:59+02:00", DateFormat.ISO, date(2026, 8, 3)),
        ("2024-02-29 10:00", DateFormat.ISO, date(2024, 2, 29)),
    ],
)
def test_a_day_is_what_its_format_says(text: str, form: DateFormat, day: date) -> None:
    assert read_date(text, form) == day


@pytest.mark.parametrize(
    ("text", "form", "hint"),
    [
        ("13/04/2026", DateFormat.MONTH_SLASH, "is no day of the calendar, read as MM/DD/YYYY"),
        ("31.02.2026", DateFormat.DAY_DOT, "is no day of the calendar"),
        ("01.02.26", DateFormat.DAY_DOT, "It would be one as DD.MM.YY"),
        ("2026-13-05", DateFormat.ISO, "is no day of the calendar"),
        ("1026-01-05", DateFormat.ISO, "is in the year 1026"),
        ("46237", DateFormat.ISO, "is no date written as YYYY-MM-DD."),
        ("", DateFormat.ISO, "is empty: a date is needed."),
    ],
)
def test_what_is_no_such_day_is_refused_and_no_other_format_is_tried(
    text: str, form: DateFormat, hint: str
) -> None:
    with pytest.raises(Unreadable) as refused:
        read_date(text, form)
    assert hint in str(refused.value)


def test_formats_that_fit_are_all_named_so_that_an_ambiguity_shows() -> None:
    assert fitting_formats(["03/04/2026", "05/06/2026"]) == [DateFormat.DAY_SLASH, DateFormat.MONTH_SLASH]
    assert fitting_formats(["03/04/2026", "13/04/2026"]) == [DateFormat.DAY_SLASH]
    assert {f.point for f in fitting_numbers(["1.000"])} == {",", "."}
    assert {f.point for f in fitting_numbers(["1.000", "1.355,90"])} == {","}
