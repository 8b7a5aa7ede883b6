"""What a limit allows, over made-up time: no minute holds more than it says, and none less than nine tenths of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from workflows.limits import State, allowance, charged, put_right

NOON = datetime(2026, 3, 29, 12, tzinfo=UTC)


def taken(limit: State, asks: list[tuple[float, int]]) -> list[float]:
    """Seconds at which one item each was claimed, of claimers who come after so many seconds and want so many."""
    times: list[float] = []
    clock = 0.0
    for pause, wanted in asks:
        clock += pause
        now = NOON + timedelta(seconds=clock)
        count = min(wanted, allowance(limit, running=0, now=now).count)
        limit = charged(limit, count=count, tokens=0, cost=Decimal(0), now=now) if count else limit
        times += [clock] * count
    return times


@given(
    rate=st.integers(1, 500),
    asks=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 100)), min_size=1, max_size=60),
)
def test_no_minute_holds_more_requests_than_the_limit_says(rate: int, asks: list[tuple[float, int]]) -> None:
    times = taken(State(requests_per_minute=rate), asks)
    for first, beyond in zip(times, times[rate:], strict=False):
        assert beyond - first >= 60 - 1e-3


def test_a_rate_that_is_always_asked_for_is_used_to_nine_tenths() -> None:
    times = taken(State(requests_per_minute=100), [(0.05, 16)] * (20 * 600))
    assert 900 <= len(times) <= 1000
    assert max(b - a for a, b in pairwise(times)) < 0.8


def test_a_closed_limit_says_when_it_opens_and_is_open_then() -> None:
    limit = State(requests_per_minute=6)
    limit = charged(limit, count=1, tokens=0, cost=Decimal(0), now=NOON)
    found = allowance(limit, running=0, now=NOON)
    assert (found.count, found.why) == (0, "6 requests a minute")
    assert found.until == NOON + timedelta(seconds=10)
    assert allowance(limit, running=0, now=found.until).count == 1


def test_concurrency_counts_what_runs() -> None:
    limit = State(concurrency=4)
    assert allowance(limit, running=1, now=NOON).count == 3
    found = allowance(limit, running=5, now=NOON)
    assert (found.count, found.why, found.until) == (0, "5 of 4 are running", None)


def test_tokens_are_charged_by_what_the_last_ones_used() -> None:
    limit = State(tokens_per_minute=60_000, average_tokens=3000)
    assert allowance(limit, running=0, now=NOON).count == 2
    limit = charged(limit, count=2, tokens=6000, cost=Decimal(0), now=NOON)
    found = allowance(limit, running=0, now=NOON)
    assert (found.count, found.why) == (0, "60,000 tokens a minute")
    assert found.until is not None
    assert allowance(limit, running=0, now=found.until + timedelta(seconds=0.1)).count == 1


def test_a_budget_ends_with_the_day_and_begins_anew_at_midnight_utc() -> None:
    limit = State(cost_per_day=Decimal("2.50"), average_cost=Decimal("0.5"))
    assert allowance(limit, running=0, now=NOON).count == 5
    limit = charged(limit, count=5, tokens=0, cost=Decimal("2.5"), now=NOON)
    found = allowance(limit, running=0, now=NOON + timedelta(hours=3))
    assert (found.count, found.why) == (0, "a budget of 2.5 a day")
    assert found.until == datetime(2026, 3, 30, tzinfo=UTC)
    assert allowance(limit, running=0, now=found.until).count == 5


def test_a_limit_that_was_told_to_wait_waits() -> None:
    limit = State(
        concurrency=9, closed_until=NOON + timedelta(seconds=90), closed_why="the other side asked to wait"
    )
    found = allowance(limit, running=0, now=NOON)
    assert (found.count, found.until) == (0, limit.closed_until)
    assert allowance(limit, running=0, now=NOON + timedelta(seconds=90)).count == 9


@given(rate=st.integers(1, 500), back=st.floats(0, 1e6), taken=st.integers(0, 50))
def test_a_clock_that_is_put_back_closes_a_rate_for_no_longer_than_one_request_takes(
    rate: int, back: float, taken: int
) -> None:
    limit, now = State(requests_per_minute=rate), NOON
    for _ in range(taken):
        found = allowance(limit, running=0, now=now)
        now = found.until or now
        limit = charged(limit, count=1, tokens=0, cost=Decimal(0), now=now)
    closed = allowance(limit, running=0, now=now)
    if closed.until is not None:
        limit = replace(limit, closed_until=closed.until, closed_why=closed.why)
    now -= timedelta(seconds=back)
    limit = put_right(limit, now)
    found = allowance(limit, running=0, now=now)
    if not found.count:
        assert found.until is not None
        assert found.until - now <= timedelta(seconds=60 / rate + 1)
        then = found.until + timedelta(milliseconds=1)
        assert allowance(put_right(limit, then), running=0, now=then).count
