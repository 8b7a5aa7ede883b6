"""What a file itself shows of how it is to be read, and what it leaves open."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from statements.guessing import Guess, guess
from statements.table import Row, pieces, rows
from statements.terms import Column
from tests.statements.shelf import content_of


def guessed(content: bytes) -> Guess:
    return guess(splitting(content))


def splitting(content: bytes) -> Callable[[str], list[Row]]:
    def split(delimiter: str) -> list[Row]:
        found = pieces(lambda position: content[position:], 0, len(content), "utf-8")
        return list(rows(found, encoding="utf-8", delimiter=delimiter, position=0, line=1))

    return split


@pytest.mark.parametrize(
    ("content", "delimiter", "told"),
    [
        (
            b"Date;Amount;Text\n2026-08-03;-1,00;a, b, c\n2026-08-04;-2,00;d\n",
            ";",
            "3 of the first rows 3 columns",
        ),
        (b"Date\tAmount\n2026-08-03\t1,00\n", "\t", "2 of the first rows 2 columns"),
        (b"Date,Amount\n2026-08-03,1.00\n", ",", "2 of the first rows 2 columns"),
        (b"Date\n2026-08-03\n", ";", "Nothing separates columns here"),
        (b"one line", ";", "Nothing separates columns here"),
    ],
)
def test_what_separates_columns_is_proposed_with_what_showed_it(
    content: bytes, delimiter: str, told: str
) -> None:
    found = guessed(content)
    assert found.values["delimiter"] == delimiter
    assert told in found.evidence["delimiter"]


def test_the_header_below_a_preamble_and_the_total_at_the_end_are_found() -> None:
    found = guessed(content_of("10_preamble_footer.csv"))
    assert found.names == ("Date", "Amount", "Reference")
    assert found.evidence["header"] == "Row 5 consists of names."
    assert found.values["columns"] == {
        Column.BOOKED: "Date", Column.AMOUNT: "Amount", Column.REFERENCE: "Reference",
    }  # fmt: skip
    assert found.values["left_out"] == ["Total"]
    assert (found.values["dates"], found.values["numbers"]) == ("DD.MM.YYYY", "1.234,50")


def test_what_two_formats_fit_is_left_open_and_said() -> None:
    found = guessed(b"Date;Amount\n03/04/2026;1.000\n05/06/2026;2.000\n")
    assert "dates" not in found.values
    assert "numbers" not in found.values
    assert found.evidence["dates"] == (
        "DD/MM/YYYY and MM/DD/YYYY all fit: the file does not say which it is, so you have to."
    )
    assert "so you have to" in found.evidence["numbers"]


def test_a_file_of_no_names_has_no_header() -> None:
    assert guessed(b"2026-08-03;1,00;a\n2026-08-04;2,00;b\n").values["header"] is False
