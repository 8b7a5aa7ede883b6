"""What is offered for a line, and why: pure, without a row."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, timedelta
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statements.matching.adding_up import MOST_FOUND, allocate, sets_on_both_sides, sets_that_add_up
from statements.matching.comparing import Booked, Expected
from statements.matching.ladder import Tier
from statements.matching.likeness import Written
from statements.matching.settings import Settings
from statements.matching.suggesting import (
    lines_for,
    lines_together,
    operations_for,
    operations_together,
)

DAY = date(2026, 3, 12)


def line(amount: int = 25000, **changes: object) -> Booked:
    values = {"line_id": 1, "currency": "EUR", "direction": "out", "booked_on": DAY, **changes}
    if "reference" in values:
        values["folded"] = str(values["reference"]).replace("-", "").upper()
    return Booked(amount=amount, **values)  # type: ignore[arg-type]


def operation(number: int = 1, amount: int | None = 25000, **changes: object) -> Expected:
    values = {
        "operation_id": number,
        "label": f"CF-{number:05d}-01",
        "currency": "EUR",
        "key": f"Key{number:029d}",
        "sent_on": DAY - timedelta(days=1),
        "record": f"INV-{number}",
        "folded": f"INV{number}",
        "state": "UNKNOWN",
        **changes,
    }
    return Expected(amount=amount, **values)  # type: ignore[arg-type]


def test_each_rung_says_what_is_equal_and_what_is_not() -> None:
    lenient = Settings(tolerance=50)
    rungs = [
        (line(text="ref key00000000000000000000000000001 thanks"), Tier.OUR_KEY, "names our key, no reference, amount equal, 1 day later"),
        (line(receivers_id="R-9"), Tier.RECEIVERS_ID, "receiver’s id equal, no reference, amount equal, 1 day later"),
        (line(reference="inv1"), Tier.REFERENCE, "reference equal, amount equal, 1 day later"),
        (line(25030), Tier.NEAR, "no reference, EUR 0.30 more, 1 day later"),
        (line(24970, reference="INV-9"), Tier.NEAR, "another reference, EUR 0.30 less, 1 day later"),
        (
            line(99, text="Pelworth Glass ltd"),
            Tier.TEXT,
            "no reference, EUR 249.01 less, 1 day later; 96 % of “Pellworth Glass” is in its words: pelworth, glass",
        ),
    ]  # fmt: skip
    one = operation(receipt_id="R-9", recipient="Pellworth Glass")
    for booked, tier, because in rungs:
        (found,) = operations_for(booked, [one], lenient)
        assert (found.tier, found.because) == (tier, because)


@pytest.mark.parametrize(
    "booked",
    [
        line(currency="USD"),
        line(direction="in"),
        line(account="other"),
        line(25051),
        line(booked_on=DAY + timedelta(days=30)),
        line(booked_on=DAY - timedelta(days=3)),
    ],
)
def test_what_cannot_be_it_is_not_offered(booked: Booked) -> None:
    assert operations_for(booked, [operation(account="main")], Settings(tolerance=50)) == []


def test_two_that_fit_are_both_offered_with_what_tells_them_apart() -> None:
    """K1: the same amount twice, and a line that names neither."""
    two = [operation(1, recipient="Fennmark"), operation(2, recipient="Pellworth")]
    found = operations_for(line(), two, Settings())
    assert [s.expected.operation_id for s in found] == [1, 2]
    assert [s.apart for s in found] == [
        "record INV-1, to Fennmark, number CF-00001-01",
        "record INV-2, to Pellworth, number CF-00002-01",
    ]
    named, other = operations_for(line(reference="INV-2"), two, Settings())
    assert (named.expected.operation_id, named.tier) == (2, Tier.REFERENCE)
    assert other.tier is Tier.NEAR


def test_lines_for_an_operation_are_told_apart_by_what_they_say() -> None:
    found = lines_for(
        operation(), [line(line_id=7), line(line_id=8, booked_on=DAY + timedelta(days=1))], Settings()
    )
    assert [(s.booked.line_id, s.apart) for s in found] == [
        (7, "booked 2026-03-12"),
        (8, "booked 2026-03-13"),
    ]


def test_the_sum_of_three_is_proposed_as_a_set() -> None:
    """K5: one line for three payments."""
    amounts = [10000, 5000, 2550, 999]
    candidates = [operation(n, amount) for n, amount in enumerate(amounts, 1)]
    (found,) = operations_together(line(17550), candidates, Settings())
    assert [e.operation_id for e in found.operations] == [1, 2, 3]
    assert found.because == "3 operations add up to it exactly"
    lines = [line(amount, line_id=n) for n, amount in enumerate(amounts, 1)]
    (found,) = lines_together(operation(9, 17550), lines, Settings())
    assert [b.line_id for b in found.lines] == [1, 2, 3]
    assert operations_together(line(17551), candidates, Settings()) == []


def test_several_sets_are_said_to_be_several() -> None:
    four = [operation(n, amount) for n, amount in enumerate([100, 200, 200, 100], 1)]
    found = operations_together(line(300), four, Settings())
    assert len(found) == MOST_FOUND
    assert {t.because for t in found} == {
        "2 operations add up to it exactly; other sets do too; not every set was tried"
    }


amounts = st.lists(st.integers(1, 60), max_size=9)


@given(amounts, st.integers(1, 200), st.integers(2, 6))
def test_sets_that_add_up_are_what_trying_everything_finds(
    some: list[int], target: int, largest: int
) -> None:
    found = sets_that_add_up(target, some, largest=largest)
    everything = {
        places
        for size in range(2, largest + 1)
        for places in combinations(range(len(some)), size)
        if sum(some[i] for i in places) == target
    }
    assert set(found.found) <= everything
    assert len(found.found) == min(len(everything), MOST_FOUND)
    assert found.whole is (len(everything) <= MOST_FOUND)


def test_a_search_without_an_answer_ends_and_says_that_it_was_cut() -> None:
    search = sets_that_add_up(10**9 + 1, [2 * n for n in range(10**7, 10**7 + 400)], largest=8, steps=2000)
    assert (search.found, search.whole) == ((), True)  # too small together: known without a search
    search = sets_that_add_up(401, [2 * n for n in range(1, 100)], largest=6, steps=2000)
    assert (search.found, search.whole) == ((), False)


booked_lines = st.builds(
    lambda amount, reference, days, number: line(amount, line_id=number, reference=reference, booked_on=DAY + timedelta(days=days)),
    st.integers(1, 4).map(lambda n: n * 100), st.sampled_from(["", "INV-1", "INV-2"]), st.integers(-2, 8), st.integers(1, 99),
)  # fmt: skip
operations = st.lists(
    st.builds(operation, st.integers(1, 50), st.integers(1, 4).map(lambda n: n * 100), record=st.sampled_from(["INV-1", "INV-2"])),
    max_size=6, unique_by=lambda e: e.operation_id,
).map(lambda found: [replace(e, folded=e.record.replace("-", "")) for e in found])  # fmt: skip


@given(booked_lines, operations, st.randoms(use_true_random=False))
def test_suggestions_do_not_depend_on_the_order_in_which_candidates_come(
    booked: Booked, candidates: list[Expected], chance: random.Random
) -> None:
    shuffled = list(candidates)
    chance.shuffle(shuffled)
    assert operations_for(booked, candidates, Settings()) == operations_for(booked, shuffled, Settings())
    for one in operations_for(booked, candidates, Settings()):
        assert one.expected.currency == booked.currency


def test_a_likeness_names_the_words_that_make_it() -> None:
    found = Written("SEPA PELLWORTH GLAS 8790").likeness(("Fennmark", "Pellworth Glass", "PW-8790"))
    assert (found.name, found.words) == ("Pellworth Glass", ("pellworth", "glas"))
    assert Written("paid INV-17 in full").likeness(("INV-17",)).share == 1
    assert Written("paid INV-18 in full").likeness(("INV-17",)).share == 0
    assert Written("").likeness(("Pellworth",)).share == 0
    assert Written("nothing alike here").likeness(("Pellworth",)).share == 0


@given(st.integers(1, 60), amounts, amounts, st.integers(3, 6))
def test_sets_on_both_sides_are_what_trying_everything_finds(
    first: int, others: list[int], theirs: list[int], largest: int
) -> None:
    found = sets_on_both_sides(first, others, theirs, largest=largest)
    everything = {
        (mine, wanted)
        for size in range(1, largest)
        for mine in combinations(range(len(others)), size)
        for count in range(2, largest)
        for wanted in combinations(range(len(theirs)), count)
        if size + 1 + count <= largest
        and first + sum(others[i] for i in mine) == sum(theirs[i] for i in wanted)
        and not falls_apart([first, *(others[i] for i in mine)], [theirs[i] for i in wanted])
    }
    assert set(found.found) <= everything
    assert len(found.found) == min(len(everything), MOST_FOUND)
    assert not found.whole or len(everything) <= MOST_FOUND


def falls_apart(given_ones: list[int], wanted: list[int]) -> bool:
    """Whether a part of the one is what a part of the other comes to, so that they are two matches."""
    return any(
        sum(a) == sum(b)
        for n in range(1, len(given_ones))
        for a in combinations(given_ones, n)
        for k in range(1, len(wanted))
        for b in combinations(wanted, k)
    )


positive = st.lists(st.integers(1, 10**6), min_size=1, max_size=5)


@given(positive, positive)
def test_what_is_allocated_is_all_that_both_sides_have_in_common(
    lines: list[int], operations: list[int]
) -> None:
    shares = allocate(dict(enumerate(lines)), dict(enumerate(operations)))
    assert sum(piece for _, _, piece in shares) == min(sum(lines), sum(operations))
    assert len(shares) <= len(lines) + len(operations) - 1
    for side, amounts_of in ((0, lines), (1, operations)):
        for key, amount in enumerate(amounts_of):
            assert sum(s[2] for s in shares if s[side] == key) <= amount
    assert all(piece > 0 for _, _, piece in shares)


def test_lines_that_miss_the_operation_by_a_little_are_offered_only_where_none_add_up() -> None:
    lines = [line(a, line_id=n) for n, a in enumerate((10000, 14970, 15000), 1)]
    (exact,) = lines_together(operation(9, 25000), lines, Settings(tolerance=50))
    assert exact.because == "2 lines add up to it exactly"
    (near,) = lines_together(operation(9, 25000), lines[:2], Settings(tolerance=50))
    assert near.because == "2 lines come to it but for EUR 0.30"
    assert lines_together(operation(9, 25000), lines[:2], Settings(tolerance=29)) == []


def test_a_line_that_names_the_record_is_offered_whatever_its_amount() -> None:
    """It may be a part, although no other word of it is alike."""
    one = replace(
        operation(9, 25000, record="INV-1"), folded="INV1", title="Pay the winter delivery of castings"
    )
    (found,) = lines_for(one, [replace(line(10000, reference="INV1"), folded="INV1")], Settings(likeness=1))
    assert (found.tier, found.is_exact) == (Tier.TEXT, False)
    assert found.because.startswith("reference equal, EUR 150.00 less")
