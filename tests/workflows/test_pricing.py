"""What a call costs: by the installation's table, by the library, or unknown; and what cannot be meant is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings

from workflows import checks, pricing
from workflows.authoring import Ctx, Usage
from workflows.pricing import BadPrices, Used, cost_of

TABLE = """
currency = "USD"

[routes.own]
input = 2
output = 10.5
cached = 0.5
cache_written = 2.5

[routes."ocr:page"]
request = 0.0015

[routes.free]
input = 0
"""


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "prices.toml"
    path.write_text(TABLE)
    pricing.configure(currency="USD", path=str(path))
    yield path
    checks.load_prices()


@pytest.fixture
def ctx() -> Ctx:
    return Ctx(tenant_id=1, job_id=1, reference="", item_key="1", attempt=1, request_key="k")


@pytest.mark.parametrize(
    ("route", "used", "cost"),
    [
        ("own", Used(1_000_000, 100), "2.00105"),
        ("own", Used(1000, 0, tokens_cached=600, tokens_cache_written=100), "0.00115"),
        ("own", Used(), None),
        ("ocr:page", Used(), "0.0015"),
        ("free", Used(), "0"),
        ("free", Used(5, 5), "0"),
        ("nobody-knows", Used(5, 5), None),
        ("gpt-4o", Used(1000, 100), "0.0035"),
        ("openai:gpt-4o", Used(1000, 100, tokens_cached=200, tokens_reasoning=50), "0.00325"),
        ("openrouter:openai/gpt-4o", Used(1000, 100), "0.0035"),
        ("openai:text-embedding-3-small", Used(1000), "0.00002"),
        ("gpt-4o", Used(), None),
        ("nobody:gpt-4o", Used(5, 5), None),
    ],
)
def test_call_costs_what_the_table_or_else_the_library_says(
    table: Path, route: str, used: Used, cost: str | None
) -> None:
    assert cost_of(route, used) == (None if cost is None else Decimal(cost))


def test_librarys_dollars_are_not_taken_for_another_currency(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('currency = "EUR"\n[routes.own]\ninput = 2\n')
    pricing.configure(currency="EUR", path=str(path))
    try:
        assert cost_of("gpt-4o", Used(1000, 100)) is None
        assert cost_of("own", Used(1000)) == Decimal("0.002")
    finally:
        checks.load_prices()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('currency = "EUR"', "is in EUR, but costs here are in USD"),
        ("", "is in no currency"),
        ("currency = ", "is no TOML"),
        ('currency = "USD"\nprices = 1', "prices: only currency and routes"),
        ('currency = "USD"\nroutes = 1', "routes is a table"),
        ('currency = "USD"\n[routes.a]\nin = 1', "has one or more of"),
        ('currency = "USD"\n[routes.a]', "has one or more of"),
        ('currency = "USD"\n[routes.a]\ninput = -1', "is an amount of money"),
        ('currency = "USD"\n[routes.a]\ninput = "2"', "is an amount of money"),
        ('currency = "USD"\n[routes.a]\ninput = true', "is an amount of money"),
        ('currency = "USD"\n[routes.a]\ninput = nan', "is an amount of money"),
        ('currency = "USD"\n[routes.a]\ninput = 1e99', "is an amount of money"),
    ],
)
def test_table_that_is_not_clear_is_refused_at_start_and_prices_nothing(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(BadPrices, match=said):
        pricing.read_table(path, "USD")
    with override_settings(COUNTERFOIL_PRICES=str(path)):
        checks.load_prices()
        (error,) = checks.prices_are_clear()
        assert (error.id, said in str(error.msg)) == ("counterfoil.E003", True)
        assert cost_of("gpt-4o", Used(1000, 100)) is None
    checks.load_prices()
    assert checks.prices_are_clear() == []


def test_currency_that_does_not_exist_is_refused_at_start(settings: Any) -> None:
    settings.COUNTERFOIL_COST_CURRENCY = "dollars"
    (error,) = checks.prices_are_clear()
    assert error.id == "counterfoil.E004"


def test_calls_of_an_attempt_add_up_by_route_and_unknown_ones_are_counted(table: Path, ctx: Ctx) -> None:
    ctx.record(route="own", tokens_in=1_000_000, tokens_out=100)
    ctx.record(route="nobody-knows", tokens_in=7)
    ctx.record(route="own", tokens_in=500_000, tokens_cached=500_000)
    ctx.record(route="by-hand", cost=Decimal("1.5"))
    assert (ctx.usage.cost, ctx.usage.unpriced, ctx.usage.tokens_in) == (Decimal("3.75105"), 1, 1_500_007)
    assert {name: (use.calls, use.cost, use.unpriced) for name, use in ctx.usage.routes.items()} == {
        "own": (2, Decimal("2.25105"), 0),
        "nobody-knows": (1, Decimal(0), 1),
        "by-hand": (1, Decimal("1.5"), 0),
    }
    assert '"route": "own", "calls": 2' in ctx.usage.by_route()


def test_one_plain_route_needs_no_list(table: Path, ctx: Ctx) -> None:
    ctx.record(route="own", tokens_in=7)
    assert ctx.usage.by_route() == ""


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ({"route": ""}, "A route is"),
        ({"route": "a\0b"}, "A route is"),
        ({"route": "x" * 201}, "A route is"),
        ({"route": "a", "tokens_in": -1}, "not negative"),
        ({"route": "a", "tokens_in": 1.5}, "whole numbers"),
        ({"route": "a", "tokens_in": None}, "whole numbers"),
        ({"route": "a", "tokens_in": 1, "tokens_cached": 2}, "a part of tokens_in"),
        ({"route": "a", "tokens_out": 1, "tokens_reasoning": 2}, "a part of tokens_in"),
        ({"route": "a", "tokens_in": 2**31}, "more than"),
        ({"route": "a", "cost": 0.5}, "a Decimal, not float"),
        ({"route": "a", "cost": Decimal("NaN")}, "an amount"),
        ({"route": "a", "cost": Decimal(-1)}, "an amount"),
        ({"route": "a", "cost": Decimal(10**9)}, "an amount"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_added(
    ctx: Ctx, call: dict[str, Any], said: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        ctx.record(**call)
    assert ctx.usage == Usage()


def test_threads_of_a_handler_lose_nothing_when_they_record_at_once(table: Path, ctx: Ctx) -> None:
    import threading

    def many() -> None:
        for _ in range(500):
            ctx.record(route="own", tokens_in=1, tokens_out=1)

    threads = [threading.Thread(target=many) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ctx.usage.tokens_in, ctx.usage.routes["own"].calls) == (4000, 4000)
