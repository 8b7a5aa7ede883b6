"""H9: operation keys leave as CSV, are opened and saved in a spreadsheet, and come back: the same keys, to the letter."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from access.tenancy import reading
from dispatch import contracts
from dispatch.models import Receiver
from statements.matching.ladder import Tier
from tests.dispatch.world import a_keyed_contract
from tests.reconciliation.pages import as_person
from tests.statements.matching.ledger import Ledger
from tests.statements.shelf import Shelf, terms
from tests.statements.test_pages import Desk

pytestmark = pytest.mark.django_db(transaction=True)
SHAPES = ((35, "upper"), (30, "lower"), (20, "digits and lower"), (16, "upper"))
"""Other lengths than these would do, but no two alike: a key is found whatever the case of its letters."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eEdD][+-]?\d+)?")
MONTH = "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sep(tember)?|oct(ober)?|nov(ember)?|dec(ember)?)"
DAY = re.compile(rf"(?i)\d{{1,4}}[-/. ]{MONTH}([-/. ]\d{{1,4}})?|{MONTH}[-/. ]?\d{{1,4}}")


def saved_by_a_spreadsheet(table: str) -> bytes:
    """What a spreadsheet makes of a table with commas: numbers to fifteen digits, months with a number as days."""
    saved = io.StringIO()
    writer = csv.writer(saved, delimiter=";")
    for row in csv.reader(io.StringIO(table)):
        writer.writerow([_cell(cell) for cell in row])
    return saved.getvalue().encode()


def _cell(text: str) -> str:
    if NUMBER.fullmatch(text):
        return f"{float(re.sub('[dD]', 'e', text)):.15G}"
    if DAY.fullmatch(text):
        return "01.03.2026"
    return text.upper() if text.lower() in ("true", "false") else text


class LikeANumber:
    """Draws what makes a key look like a number if it can: a digit, then an e, then digits."""

    def __init__(self) -> None:
        self._drawn = 0

    def choice(self, letters: str) -> str:
        self._drawn += 1
        wanted = "eE" if self._drawn == 2 else "19"
        return next((w for w in wanted if w in letters), letters[-1])


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of each shape: the one that is most like a number, and some as they are drawn."""
    kinds = [a_keyed_contract(key_max_len=most, key_charset=letters) for most, letters in SHAPES]
    drawn = [kind.new_key() for kind in kinds for _ in range(5)]
    for kind in kinds:
        monkeypatch.setattr(contracts, "secrets", SimpleNamespace(choice=LikeANumber().choice))
        drawn.append(kind.new_key())
    monkeypatch.undo()
    return drawn


def test_the_spreadsheet_of_these_tests_spoils_what_keys_elsewhere_look_like() -> None:
    assert [_cell(c) for c in ("0010", "021000021", "219E01", "1234567890123456", "MAR1", "1-may", "true")] == [
        "10", "21000021", "2190", "1.23456789012346E+15", "01.03.2026", "01.03.2026", "TRUE",
    ]  # fmt: skip


def test_keys_come_back_from_a_spreadsheet_as_they_left_and_name_their_operations(keys: list[str]) -> None:
    """The receiver's statement names every key; its lines are saved as a table, opened, saved, and uploaded again."""
    ledger = Ledger.make()
    operations = ledger.operations(
        [{"operation_key": k, "record": f"INV-{n}", "amount_minor": 1000 + n} for n, k in enumerate(keys)]
    )
    with reading(ledger.tenant.pk):
        shelf = Shelf(ledger.tenant, ledger.operator, Receiver.objects.get(pk=ledger.receiver_id))
    rows = "".join(f"2026-03-12;-10,{n:02};{key}\n" for n, key in enumerate(keys))
    first = shelf.read(f"Date;Amount;Reference\n{rows}".encode())
    out = _saved(Desk(shelf).get("statement-lines-file", first))
    again = shelf.read(
        saved_by_a_spreadsheet(out),
        terms(
            columns={"booked_on": "Booked on", "amount": "Amount", "reference": "Reference"},
            numbers="1234.50",
        ),
        account="from a spreadsheet",
    )
    assert (shelf.problems(again), [line.reference for line in shelf.lines(again)]) == ("", keys)
    shelf.apply(again)
    ledger.walk()
    assert [(o, tier) for _, o, tier in ledger.matches()] == [(o, Tier.OUR_KEY) for o in operations]

    days = {"account": "from a spreadsheet", "first": "2026-03-12", "last": "2026-03-12"}
    period = f"/t/{ledger.tenant.slug}/statements/period/{ledger.receiver_id}/differences.csv"
    named = _saved(as_person(ledger.operator).get(period, days))
    found = list(csv.DictReader(io.StringIO(saved_by_a_spreadsheet(named).decode()), delimiter=";"))
    assert sorted(row["Named by"] for row in found if row["Named by"]) == sorted(keys)


def _saved(response: Any) -> str:
    chunks: Iterator[bytes] = response.streaming_content
    return b"".join(chunks).decode()
