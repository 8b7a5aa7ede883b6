"""What one attempt used: added up over the calls that it recorded, by route."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from workflows import pricing
from workflows.pricing import Used

LONGEST_ANSWER = 20_000
LONGEST_ROUTE = 200
MOST_TOKENS = 2**31 - 1
MOST_COST = Decimal(10**9)


@dataclass(slots=True)
class RouteUse:
    """What an attempt's calls by one route used. `unpriced`: how many of them have a cost that nobody knows."""

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_cache_written: int = 0
    tokens_reasoning: int = 0
    cost: Decimal = Decimal(0)
    unpriced: int = 0

    def add(self, used: Used, cost: Decimal | None) -> None:
        """Count one more call; a cost of None is one that nobody knows."""
        self.calls += 1
        self.tokens_in += used.tokens_in
        self.tokens_out += used.tokens_out
        self.tokens_cached += used.tokens_cached
        self.tokens_cache_written += used.tokens_cache_written
        self.tokens_reasoning += used.tokens_reasoning
        self.cost += cost or 0
        self.unpriced += cost is None


@dataclass(slots=True)
class Usage:
    """What one attempt used. A handler's threads may record at the same time."""

    route: str = ""
    """Of the last call."""
    total: RouteUse = field(default_factory=RouteUse)
    routes: dict[str, RouteUse] = field(default_factory=dict)
    answer: str = ""
    """What the model said last, for whoever looks at a failed attempt."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False, compare=False)

    @property
    def tokens_in(self) -> int:
        """What was sent to all routes together."""
        return self.total.tokens_in

    @property
    def tokens_out(self) -> int:
        """What came back from all routes together."""
        return self.total.tokens_out

    @property
    def cost(self) -> Decimal:
        """What is known of it; `unpriced` calls come on top."""
        return self.total.cost

    @property
    def unpriced(self) -> int:
        """How many calls have a cost that nobody knows."""
        return self.total.unpriced

    def add(self, route: str, used: Used, cost: Decimal | None, answer: str) -> None:
        """One call. Raises ValueError or TypeError, with nothing added, for what cannot be meant."""
        _check(route, used, cost)
        if cost is None:
            cost = pricing.cost_of(route, used)
        with self._lock:
            if max(self.tokens_in + used.tokens_in, self.tokens_out + used.tokens_out) > MOST_TOKENS:
                raise ValueError(f"One attempt cannot have used more than {MOST_TOKENS:,} tokens.")
            self.route = route
            self.total.add(used, cost)
            self.routes.setdefault(route, RouteUse()).add(used, cost)
            self.answer = answer[:LONGEST_ANSWER] or self.answer

    def by_route(self) -> str:
        """As JSON where the total does not tell all: several routes, or tokens of a special kind; else nothing."""
        special = self.total.tokens_cached or self.total.tokens_cache_written or self.total.tokens_reasoning
        if len(self.routes) < 2 and not special:
            return ""
        return json.dumps(
            [
                {
                    "route": route,
                    "calls": use.calls,
                    "tokens_in": use.tokens_in,
                    "tokens_out": use.tokens_out,
                    "tokens_cached": use.tokens_cached,
                    "tokens_cache_written": use.tokens_cache_written,
                    "tokens_reasoning": use.tokens_reasoning,
                    "cost": str(use.cost),
                    "unpriced": use.unpriced,
                }
                for route, use in self.routes.items()
            ]
        )


def _check(route: Any, used: Used, cost: Any) -> None:
    if not isinstance(route, str) or not 1 <= len(route) <= LONGEST_ROUTE or not route.isprintable():
        raise ValueError(f"A route is 1 to {LONGEST_ROUTE} printable characters, such as a model's name.")
    counts: tuple[Any, ...] = (
        used.tokens_in,
        used.tokens_out,
        used.tokens_cached,
        used.tokens_cache_written,
        used.tokens_reasoning,
    )
    if any(isinstance(n, bool) or not isinstance(n, int) for n in counts):
        raise TypeError("Tokens are whole numbers.")
    if min(counts) < 0:
        raise ValueError("Tokens are not negative.")
    if (
        used.tokens_cached + used.tokens_cache_written > used.tokens_in
        or used.tokens_reasoning > used.tokens_out
    ):
        raise ValueError(
            "Cached and cache-written tokens are a part of tokens_in, and reasoning ones of tokens_out."
        )
    if cost is None:
        return
    if not isinstance(cost, Decimal):
        raise TypeError(
            f"A cost is a Decimal, not {type(cost).__name__}: other numbers have already lost some of it."
        )
    if not cost.is_finite() or not 0 <= cost < MOST_COST:
        raise ValueError("A cost is an amount from nothing on, and less than 1,000,000,000.")
