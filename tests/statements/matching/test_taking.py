"""What the machine takes by itself, by statements over real rows."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statements.matching.settings import Settings
from tests.statements.matching.ledger import Ledger
from tests.support import at_once

pytestmark = pytest.mark.django_db(transaction=True)
BY_REFERENCE = Settings(takes_references=True)
KEY = "kq7m2f9hd3xw5zt8"


def test_each_rung_takes_what_is_equal_and_nothing_else() -> None:
    ledger = Ledger.make()
    keyed, captured, referred, _ = ledger.operations(
        [
            {"operation_key": KEY, "record": "INV-10"},
            {"receipt_id": "R-77", "record": "INV-11"},
            {"record": "INV-0012", "amount_minor": 999},
            {"record": "INV-12", "amount_minor": 999, "currency": "USD"},
        ]
    )
    _, lines = ledger.statement(
        [
            {"text": f"SEPA CT {KEY.upper()} INVOICE", "reference": "whatever"},
            {"receivers_id": "R-77"},
            {"reference": "inv 0012", "amount": 999},
            {"reference": "INV-12", "amount": 999},
            {"reference": "INV-12", "amount": 999, "currency": "USD", "direction": "in"},
        ]
    )
    run = ledger.walk(lines=2)
    assert ledger.matches() == [(lines[0], keyed, 0), (lines[1], captured, 1)]
    assert (run.taken, run.looked_at, run.ended_at is not None) == (2, 15, True)
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == [(lines[0], keyed, 0), (lines[1], captured, 1), (lines[2], referred, 2)]
    assert ledger.walk(BY_REFERENCE).taken == 0
    assert ledger.findings() == []


def test_a_line_that_fits_two_operations_gets_neither_until_it_names_one() -> None:
    """K1, K7: two payments of the same amount; a line without a reference, one with, and one of both references."""
    ledger = Ledger.make()
    first, second, *_ = ledger.operations(
        [{"record": "INV-1"}, {"record": "INV-2"}, {"record": "INV-3"}, {"record": "INV 3"}]
    )
    _, lines = ledger.statement([{}, {"reference": "INV-2"}, {"reference": "inv-3"}])
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == [(lines[1], second, 2)]
    # Two lines of one reference: neither is taken for the one operation that is left.
    ledger.statement([{"reference": "INV-1"}, {"reference": "INV/1"}])
    ledger.walk(BY_REFERENCE, lines=1)
    assert [operation for _, operation, _ in ledger.matches()] == [second]
    assert first


def test_a_second_line_under_one_key_stays_unclaimed() -> None:
    ledger = Ledger.make()
    (keyed,) = ledger.operations([{"operation_key": KEY}])
    _, (first, second) = ledger.statement([{"reference": KEY}, {"reference": KEY}])
    ledger.walk(lines=1)
    ledger.statement([{"reference": KEY}])
    ledger.walk()
    assert ledger.matches() == [(first, keyed, 0)]
    assert second


def test_a_line_under_our_key_that_differs_is_found_once_and_claims_nothing() -> None:
    ledger = Ledger.make()
    keyed, fine = ledger.operations([{"operation_key": KEY, "account": "main"}, {"operation_key": f"{KEY}2"}])
    _, lines = ledger.statement(
        [
            {"reference": KEY, "amount": 25001},
            {"reference": KEY, "direction": "in"},
            {"reference": f"{KEY}2"},
            {"reference": f"{KEY}2", "amount": 90, "text": "fee"},
        ]
    )
    assert ledger.walk().differing == 1
    assert ledger.walk().differing == 0
    assert ledger.findings() == [(lines[0], keyed, "differs")]
    assert ledger.matches() == [(lines[2], fine, 0)]


def test_a_key_that_went_on_to_a_later_operation_is_the_later_ones() -> None:
    ledger = Ledger.make()
    rows = [{"operation_key": KEY, "state": "NOT_APPLIED"}, {"operation_key": KEY, "state": "UNKNOWN"}]
    _, later = ledger.operations(rows)
    _, (line,) = ledger.statement([{"reference": KEY}])
    ledger.walk()
    assert ledger.matches() == [(line, later, 0)]
    assert ledger.findings() == [(line, later, "applied")]


def test_what_was_never_sent_or_is_of_another_receiver_or_account_is_left_alone() -> None:
    ledger = Ledger.make()
    ledger.operations(
        [
            {"operation_key": KEY, "state": "PREPARED", "sent": None},
            {"receipt_id": "R-1", "account": "main"},
            {"record": "INV-5", "amount_minor": 7, "sent": "2026-03-20T12:00:00Z"},
        ]
    )
    ledger.statement(
        [{"reference": KEY}, {"receivers_id": "R-1", "account": "other"}, {"reference": "INV-5", "amount": 7}]
    )
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == []
    strange = Ledger.make()
    strange.operations([{"operation_key": f"{KEY}other"}])
    ledger.statement([{"reference": f"{KEY}other"}])
    ledger.walk()
    strange.walk()
    assert (ledger.matches(), strange.matches()) == ([], [])


def test_an_operation_that_comes_late_is_matched_by_a_second_walk() -> None:
    ledger = Ledger.make()
    statement, (line,) = ledger.statement([{"reference": KEY}])
    assert ledger.walk(statement_id=statement).taken == 0
    (late,) = ledger.operations([{"operation_key": KEY}])
    assert ledger.walk(statement_id=statement).taken == 1
    assert ledger.matches() == [(line, late, 0)]


def test_two_walks_at_once_take_each_line_and_each_operation_once() -> None:
    """K7: both workers look at the same line at the same time; the index lets one of them have it."""
    ledger = Ledger.make()
    count = 60
    ledger.operations([{"operation_key": f"{KEY}{n}", "record": f"INV-{n}"} for n in range(count)])
    ledger.statement([{"reference": f"{KEY}{n}"} for n in range(count)])
    one = {"lines": 7}
    runs = at_once(
        lambda: ledger.walk(**one, statement_id=None), lambda: ledger.walk(**one, statement_id=ledger.last)
    )
    assert sum(run.taken for run in runs) == count
    assert max(Counter(operation for _, operation, _ in ledger.matches()).values()) == 1
    assert len(ledger.matches()) == count


def test_the_database_refuses_a_set_that_does_not_add_up() -> None:
    """Two lines of 60.00 and 115.50 for operations of 100.00 and 75.50; then one of 250.00 for 250.00 less a fee."""
    ledger = Ledger.make()
    a, b, c = ledger.operations([{"amount_minor": n, "record": f"{n}"} for n in (10000, 7550, 25000)])
    _, (one, other, half, rest) = ledger.statement([{"amount": n} for n in (6000, 11550, 10000, 14970)])
    right = [(one, a, 6000, 0, 0), (other, a, 4000, 0, 1), (other, b, 7550, 1, 0)]
    fee = {"within_tolerance": True, "made_by_id": ledger.operator.pk, "second_id": ledger.admin.pk, "reason": "fee",
           "apart_as": "fee"}  # fmt: skip
    short = [(half, c, 10000, 0, 0), (rest, c, 14970, 0, 1)]
    for pieces, changes, why in (
        (right[:2], {}, "does not add up"),
        ([(one, a, 5999, 0, 0), *right[1:]], {}, "does not add up"),
        ([(one, a, 6001, 0, 0), (other, a, 3999, 0, 1), right[2]], {}, "does not add up"),
        ([right[0], (other, a, 4000, 0, 1), (other, b, 7550, 2, 0)], {}, "does not add up"),
        (short, {}, "does not add up"),
        (short, fee, "does not add up"),
        (short, {**fee, "apart": -29}, "does not add up"),
        (short, {**fee, "apart": -30, "second_id": ledger.operator.pk}, "a_tolerance_needs_two_people"),
        (short, {**fee, "apart": -30, "apart_as": "theft"}, "a_difference_says_what_it_is_and_why"),
        (short, {**fee, "apart": -30, "reason": ""}, "a_difference_says_what_it_is_and_why"),
        (right, {**fee, "apart": 1}, "does not add up"),
    ):
        with pytest.raises(psycopg.Error, match=why):
            together(ledger, pieces, changes)
    assert ledger.matches() == []
    together(ledger, right, {})
    together(ledger, short, {**fee, "apart": -30})
    assert len(ledger.matches()) == 5


def together(ledger: Ledger, pieces: list[tuple[int, int, int, int, int]], changes: dict[str, Any]) -> None:
    """Insert a set at once, past every check but the database's. `apart` is of its first row."""
    rows = [
        {
            "tenant_id": ledger.tenant.pk, "line_id": line, "operation_id": operation, "allocated": allocated,
            "line_place": line_place, "operation_place": operation_place, "together": "x" + str(pieces[0][0]), "tier": 5,
            "rule_version": 1, "settings_version": 0, "compared": "[]", "within_tolerance": False, "reason": "",
            "made_by_id": ledger.operator.pk, "made_at": "2026-03-13T09:00:00Z",
            **changes, "apart": changes.get("apart", 0) if number == 0 else 0,
        }
        for number, (line, operation, allocated, line_place, operation_place) in enumerate(pieces)
    ]  # fmt: skip
    places = ", ".join(f"({', '.join(['%s'] * len(row))})" for row in rows)
    values = [value for row in rows for value in row.values()]
    ledger.owner.execute(f"INSERT INTO statements_match ({', '.join(rows[0])}) VALUES {places}", values)


def test_the_database_refuses_a_match_that_is_none() -> None:
    ledger = Ledger.make()
    euro, dollar = ledger.operations([{"record": "A"}, {"currency": "USD", "record": "B"}])
    _, (line, smaller) = ledger.statement([{}, {"amount": 100}])
    strange = Ledger.make()
    (elsewhere,) = strange.operations([{}])
    by_two = {
        "within_tolerance": True,
        "made_by_id": ledger.operator.pk,
        "second_id": ledger.admin.pk,
        "reason": "x",
    }
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"operation_id": dollar}, "do not belong together"),
        ({"line_id": smaller}, "do not belong together"),
        ({"allocated": 24999}, "do not belong together"),
        ({"operation_id": elsewhere}, "do not belong together"),
        ({"operation_id": 0}, "do not belong together"),
        ({"line_id": 0}, "do not belong together"),
        ({"line_place": 1}, "only_a_set_has_second_places"),
        ({"together": "x"}, "does not add up"),
        ({"tier": 3}, "the_machine_takes_three_tiers"),
        ({"within_tolerance": True}, "a_tolerance_needs_two_people"),
        ({"apart": 1, "apart_as": "fee"}, "a_difference_says_what_it_is_and_why"),
        ({**by_two, "apart": 1, "apart_as": "fee"}, "do not belong together"),
        ({**by_two, "line_id": smaller, "allocated": 100}, "do not belong together"),
    ]
    for changes, why in wrong:
        with pytest.raises(psycopg.Error, match=why):
            ledger.match({"line_id": line, "operation_id": euro, **changes})
    ledger.match({"line_id": line, "operation_id": euro})
    with pytest.raises(psycopg.errors.UniqueViolation, match="one_match_a"):
        ledger.match({"line_id": line, "operation_id": euro})
    for statement in (
        "UPDATE statements_match SET allocated = 1",
        "UPDATE statements_match SET unmade_at = now()",
    ):
        with pytest.raises(psycopg.errors.CheckViolation, match="ended by an unmatch"):
            ledger.owner.execute(statement)
    # What a match refers to without a foreign key is there for good, whoever asks.
    for statement, why in (
        ("DELETE FROM statements_match", "append-only"),
        ("DELETE FROM dispatch_operation", "append-only"),
        ("UPDATE dispatch_operation SET id = -id", "append-only"),
        ("UPDATE statements_statementline SET id = -id", "append-only"),
        ("DELETE FROM statements_statementline", "is not being read"),
        ("UPDATE statements_statement SET id = -id", "for good"),
    ):
        with pytest.raises(psycopg.errors.CheckViolation, match=why):
            ledger.owner.execute(statement)  # type: ignore[arg-type]
    assert len(ledger.matches()) == 1


# --- against a plain model ----------------------------------------------------------------------------------------

_examples = itertools.count(1)
references = st.sampled_from(["", "INV-1", "inv 1", "INV-2", "R-1", "R-2"])
a_line = st.fixed_dictionaries(
    {
        "amount": st.sampled_from([100, 200]),
        "reference": references,
        "receivers_id": st.sampled_from(["", "R-1", "R-2"]),
        "text": st.sampled_from(["", "key1", "key2", "key1 key2"]),
        "direction": st.sampled_from(["out", "out", "out", "in"]),
    }
)
an_operation = st.fixed_dictionaries(
    {
        "amount_minor": st.sampled_from([100, 200, 100]),
        "record": st.sampled_from(["INV-1", "INV-2"]),
        "receipt_id": st.sampled_from(["", "R-1", "R-2"]),
        "state": st.sampled_from(["CONFIRMED", "CONFLICTED", "REFUSED"]),
        "operation_key": st.sampled_from(["key1", "key2", "key3"]),
    }
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(a_line, max_size=6),
    st.lists(an_operation, max_size=4, unique_by=lambda o: o["operation_key"]),
    st.integers(1, 7),
)
def test_the_statements_take_what_a_plain_model_takes_whatever_the_size_of_a_batch(
    db: None, lines: list[dict[str, Any]], operations: list[dict[str, Any]], size: int
) -> None:
    """Never two matches of a line or an operation, the same whatever the batches, sums equal: all follow from the model."""
    mark = f"example{next(_examples):06d}"
    rows = [_marked(o, mark, ("record", "receipt_id", "operation_key")) for o in operations]
    written = [_marked(x, mark, ("reference", "receivers_id", "text")) for x in lines]
    ledger = Ledger.of_this_test()
    ids = ledger.operations(rows)
    statement, line_ids = ledger.statement(written)
    ledger.walk(BY_REFERENCE, lines=size, statement_id=statement)
    expected = modelled(dict(zip(line_ids, written, strict=True)), dict(zip(ids, rows, strict=True)))
    assert [m for m in ledger.matches() if m[0] in line_ids] == expected


def _marked(row: dict[str, Any], mark: str, names: tuple[str, ...]) -> dict[str, Any]:
    """The same row with names that no other example has."""
    return {
        **row,
        **{n: " ".join(f"{mark}{word}" for word in row[n].split(" ")) if row[n] else "" for n in names},
    }


def modelled(
    lines: dict[int, dict[str, Any]], operations: dict[int, dict[str, Any]]
) -> list[tuple[int, int, int]]:
    """The rungs, said plainly: who fits whom, alone, the first line first."""
    found: dict[int, tuple[int, int]] = {}

    def take(tier: int, fits: dict[int, set[int]], *, both_ways: bool) -> None:
        alone = {line: min(ops) for line, ops in fits.items() if len(ops) == 1}
        claimed = {operation for operation, _ in found.values()}
        wanted = Counter(operation for ops in fits.values() for operation in ops)
        for line, operation in sorted(alone.items()):
            equal = lines[line]["amount"] == operations[operation]["amount_minor"]
            if equal and operation not in claimed and not (both_ways and wanted[operation] > 1):
                claimed.add(operation)
                found[line] = (operation, tier)

    def free() -> list[int]:
        return [n for n in lines if n not in found and lines[n]["direction"] == "out"]

    def words(line: int) -> str:
        return " ".join(lines[line][n] for n in ("reference", "receivers_id", "text")).upper()

    take(
        0,
        {n: {o for o, v in operations.items() if v["operation_key"].upper() in words(n)} for n in free()},
        both_ways=False,
    )
    named = {n: {lines[n]["receivers_id"], lines[n]["reference"]} - {""} for n in free()}
    take(
        1,
        {n: {o for o, v in operations.items() if v["receipt_id"] in named[n]} for n in free()},
        both_ways=False,
    )
    claimed = {operation for operation, _ in found.values()}
    take(
        2,
        {
            n: {
                o
                for o, v in operations.items()
                if o not in claimed
                and folded(v["record"]) == folded(lines[n]["reference"])
                and v["amount_minor"] == lines[n]["amount"]
            }
            for n in free()
        },
        both_ways=True,
    )
    return [(line, operation, tier) for line, (operation, tier) in sorted(found.items())]


def folded(text: str) -> str:
    return "".join(c for c in text.upper() if c.isalnum())
