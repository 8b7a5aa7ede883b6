"""What a receiver's file can do to a worker: numbers that no column holds, rows that never end, and what is posted late."""

from __future__ import annotations

import pytest
from django.utils import timezone

from statements import mt940, working
from statements.actions.mapping import MappingMissing, read_statement
from statements.actions.settling import NotReadYet, settle_repeats
from statements.models import Verdict
from statements.table import MOST_LINES, pieces, rows
from statements.terms import Terms
from tests.statements.shelf import Shelf, terms

pytestmark = pytest.mark.django_db(transaction=True)


def _table(*lines: str) -> bytes:
    return "\n".join(["Date;Amount;Reference", *lines, ""]).encode()


@pytest.mark.parametrize("amount", ["9" * 5000, f"{'9' * 5000},00", f"0,{'0' * 5000}"])
def test_a_number_of_thousands_of_digits_is_an_error_of_its_row(shelf: Shelf, amount: str) -> None:
    statement_id = shelf.read(_table("2026-08-03;1,00;A", f"2026-08-03;{amount};B", "2026-08-03;2,00;C"))
    assert shelf.errors(statement_id) == [(3, "Amount")]
    assert shelf.signed(statement_id) == [100, 200]


def test_amounts_that_cannot_be_added_up_are_an_error_and_end_the_reading(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is an amount that a row can have; all together no column holds. Batches behind it are read all the same."""
    monkeypatch.setattr(working, "BATCH_ROWS", 4000)
    statement_id = shelf.read(_table(*[f"2026-08-03;9999999999999,99;{n}" for n in range(10_000)]))
    statement = shelf.statement(statement_id)
    assert (statement.state, statement.lines) == ("read", 10_000)
    assert "Its amounts add up to more than is kept" in shelf.problems(statement_id)
    assert {row for row, _ in shelf.errors(statement_id)} == {0}


def test_rows_that_each_seem_never_to_end_cost_no_more_than_a_few_lines_each() -> None:
    """Every line ends inside quotation marks, so that each begins a row of all the lines after it."""
    content, seen = b'a""","\n' * 1000, 0

    def block_at(position: int) -> bytes:
        return content[position:]

    class Counted:
        """The lines of the file, counting how often one is taken."""

        def __init__(self) -> None:
            self.lines = pieces(block_at, 0, len(content), "utf-8")

        def __iter__(self) -> Counted:
            return self

        def __next__(self) -> object:
            nonlocal seen
            seen += 1
            return next(self.lines)

    first = next(rows(Counted(), encoding="utf-8", delimiter=",", position=0, line=1))  # type: ignore[arg-type]
    assert first.problem is not None
    assert first.lines == 1
    assert seen == MOST_LINES + 1


def test_a_turn_ends_in_time_however_hard_its_rows_are(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that reads also opens the steps of everybody's jobs. At least one row is read each time."""
    monkeypatch.setattr(working, "BATCH_SECONDS", 0.0)
    statement_id = shelf.upload(_table("2026-08-03;1,00;A", "2026-08-03;2,00;B"))
    shelf.begin(statement_id)
    come_to = []
    while working.turn(shelf.tenant.pk, statement_id, "a worker"):
        come_to.append(shelf.signed(statement_id))
    assert come_to == [[], [100], [100, 200]]
    assert shelf.statement(statement_id).state == "read"


def test_two_entries_in_one_are_an_error_and_no_crash() -> None:
    """The library leaves out a carriage return, by which one entry becomes two."""
    content = (
        b":20:A\n:25:0010\n:28C:1\n:60F:C260801EUR10,00\n"
        b":61:2608030803C1,00NTRFONE\n:6\r1:2608030803C2,00NTRFTWO\n:62F:C260803EUR13,00\n"
    )
    batch = mt940.read(content, encoding="utf-8", account="0010")
    assert not batch.lines
    (_, problem), *_ = batch.problems
    assert "another entry inside of it" in problem.sentence


def test_a_column_whose_name_no_row_can_hold_is_refused_with_what_to_do(shelf: Shelf) -> None:
    columns = {"booked_on": "Date", "amount": "Amount", "reference": "Refe\0rence"}
    with pytest.raises(ValueError, match="has a NUL in it: map by place instead"):
        terms(columns=columns)


def test_a_table_without_a_mapping_is_not_read(shelf: Shelf) -> None:
    """The button for formats that need none, pressed for one that does."""
    statement_id = shelf.upload(_table("2026-08-03;1,00;A"))
    with pytest.raises(MappingMissing):
        read_statement(
            tenant_id=shelf.tenant.pk, statement_id=statement_id, terms=None, person_id=shelf.operator.pk, now=timezone.now()
        )  # fmt: skip
    assert shelf.statement(statement_id).state == "uploaded"


def test_an_answer_about_a_row_counts_only_for_the_reading_that_was_seen(shelf: Shelf) -> None:
    """Anna answers what she saw of row 2; meanwhile Ben has mapped the file anew, and row 2 says something else."""
    shelf.apply(shelf.read(_table("2026-08-03;1,00;A", "2026-08-03;1,50;B")))
    content = b"Date;Amount;Reference;Other\n2026-08-03;1,00;words;1,50\n"
    other: Terms = terms(columns={"booked_on": "Date", "amount": "Other", "reference": "Reference"})
    statement_id = shelf.read(content)
    seen = shelf.statement(statement_id).reading
    shelf.begin(statement_id, other)
    shelf.work(statement_id)
    with pytest.raises(NotReadYet, match="read anew"):
        settle_repeats(
            tenant_id=shelf.tenant.pk, statement_id=statement_id, reading_no=seen, rows={2: Verdict.SAME},
            person_id=shelf.operator.pk, now=timezone.now(),
        )  # fmt: skip
    assert shelf.repeats(statement_id) == [(2, Verdict.ASKED)]
