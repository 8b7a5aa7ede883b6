"""What a named limit allows now, what a claim uses of it, and when it allows something again. Pure arithmetic.

Rates are GCRA: of each rate only the time is kept at which its allowance is whole again (`*_due`). A rate of R a
minute lets a tenth of R come at once and spaces the rest, so that no 60 seconds hold more than R. Tokens and money
are known only afterwards: a claim is charged what the last ones used, and made good when it is done; so of those two
a limit can be passed by what was running when it was reached. Days are UTC's. A clock that is put back closes no rate of
requests for longer than one of them takes; tokens stay owed until the time that was written.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

UNKNOWN_TOKENS = 1000.0
"""What an item is charged in tokens before any has told."""

ASKED_TO_WAIT = "the other side asked to wait"
"""Why a limit is closed until a time that cannot be computed from the rest of its row."""

_MANY = 1_000_000


@dataclass(frozen=True, slots=True)
class State:
    """A limit's terms and use as they stand; times are aware. Field for field a row of `LimitTerms`."""

    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    cost_per_day: Decimal | None = None
    requests_due: datetime | None = None
    tokens_due: datetime | None = None
    day: date | None = None
    spent: Decimal = Decimal(0)
    average_tokens: float = 0.0
    average_cost: Decimal = Decimal(0)
    closed_until: datetime | None = None
    closed_why: str = ""

    @property
    def tokens_an_item(self) -> float:
        """What an item is charged in tokens at its claim: the average of the last ones."""
        return self.average_tokens or UNKNOWN_TOKENS


@dataclass(frozen=True, slots=True)
class Allowance:
    """How many items may be claimed now; if none, why, and from when on again (None: when something ends)."""

    count: int
    why: str = ""
    until: datetime | None = None


def allowance(limit: State, *, running: int, now: datetime) -> Allowance:
    """What `limit` allows at `now` while `running` items run under it."""
    if limit.closed_until is not None and limit.closed_until > now and limit.closed_why == ASKED_TO_WAIT:
        return Allowance(0, limit.closed_why, limit.closed_until)
    found = [
        a
        for a in (
            _concurrency(limit, running),
            _requests(limit, now),
            _tokens(limit, now),
            _cost(limit, now),
        )
        if a is not None
    ]
    closed = [a for a in found if a.count == 0]
    if closed:
        return max(closed, key=lambda a: a.until or now)
    return Allowance(min((a.count for a in found), default=_MANY))


def charged(limit: State, *, count: int, tokens: float, cost: Decimal, now: datetime) -> State:
    """`limit` after a claim of `count` items that are expected to use `tokens` and `cost` together."""
    new = replace(limit, closed_until=None, closed_why="")
    if limit.requests_per_minute is not None:
        spacing, _ = _spacing(limit.requests_per_minute)
        new = replace(new, requests_due=_later(limit.requests_due, now, spacing * count))
    if limit.tokens_per_minute is not None:
        new = replace(
            new, tokens_due=_later(limit.tokens_due, now, tokens * seconds_a_token(limit.tokens_per_minute))
        )
    today = now.astimezone(UTC).date()
    return replace(new, day=today, spent=(limit.spent if limit.day == today else Decimal(0)) + cost)


def put_right(limit: State, now: datetime) -> State:
    """`limit` as it can be at `now`: requests are never owed for longer than those that may come at once take.

    Where they are, the clock has been put back, or the rate has been raised. To be written before it is waited for.
    """
    if limit.requests_per_minute is None or limit.requests_due is None:
        return limit
    spacing, burst = _spacing(limit.requests_per_minute)
    return replace(limit, requests_due=min(limit.requests_due, now + timedelta(seconds=burst * spacing)))


def seconds_a_token(tokens_per_minute: int) -> float:
    """The spacing of tokens: nine tenths of the rate, since a tenth may come at once."""
    return 60 / (0.9 * tokens_per_minute)


def _concurrency(limit: State, running: int) -> Allowance | None:
    if limit.concurrency is None:
        return None
    free = max(0, limit.concurrency - running)
    return Allowance(free, "" if free else f"{running} of {limit.concurrency} are running")


def _requests(limit: State, now: datetime) -> Allowance | None:
    if limit.requests_per_minute is None:
        return None
    spacing, burst = _spacing(limit.requests_per_minute)
    ahead = _ahead(limit.requests_due, now)
    count = math.floor((burst * spacing - ahead) / spacing + 1e-6)
    if count >= 1:
        return Allowance(count)
    until = now + timedelta(seconds=ahead - (burst - 1) * spacing)
    return Allowance(0, f"{limit.requests_per_minute} requests a minute", until)


def _tokens(limit: State, now: datetime) -> Allowance | None:
    if limit.tokens_per_minute is None:
        return None
    spacing = seconds_a_token(limit.tokens_per_minute)
    at_once = spacing * limit.tokens_per_minute / 10
    left = at_once - _ahead(limit.tokens_due, now)
    if left > 0:
        return Allowance(max(1, math.floor(left / (limit.tokens_an_item * spacing))))
    until = now + timedelta(seconds=0.01 - left)
    return Allowance(0, f"{limit.tokens_per_minute:,} tokens a minute", until)


def _cost(limit: State, now: datetime) -> Allowance | None:
    if limit.cost_per_day is None:
        return None
    today = now.astimezone(UTC).date()
    left = limit.cost_per_day - (limit.spent if limit.day == today else Decimal(0))
    if left > 0:
        return Allowance(max(1, int(left / limit.average_cost)) if limit.average_cost > 0 else _MANY)
    tomorrow = datetime.combine(today + timedelta(days=1), time(), UTC)
    return Allowance(0, f"a budget of {limit.cost_per_day.normalize():f} a day", tomorrow)


def _spacing(per_minute: int) -> tuple[float, int]:
    """Seconds between two, and how many may come at once, so that 60 seconds never hold more than `per_minute`."""
    burst = max(1, per_minute // 10)
    return 60 / (per_minute - burst + 1), burst


def _ahead(due: datetime | None, now: datetime) -> float:
    return 0.0 if due is None else max(0.0, (due - now).total_seconds())


def _later(due: datetime | None, now: datetime, seconds: float) -> datetime:
    return max(due or now, now) + timedelta(seconds=seconds)
