"""What a call to a model costs: by the installation's own price table, else by a library's, else nobody knows.

Imports neither settings nor a database, so that workflows can be tested without them: `configure` is called by the
app. All prices are of one currency, the installation's; the library's are in US dollars and count only where that is it.
Nobody knows is None, never nothing.
"""

from __future__ import annotations

import logging
import tomllib
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
LIBRARY_CURRENCY = "USD"
MILLION = Decimal(1_000_000)
_FIELDS = {"input", "output", "cached", "cache_written", "request"}


class BadPrices(Exception):
    """The price table does not say clearly what it means; the message says where."""


@dataclass(frozen=True, slots=True)
class Used:
    """What one call used. Cached and written tokens are a part of `tokens_in`, reasoning ones of `tokens_out`."""

    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_cache_written: int = 0
    tokens_reasoning: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """A route of the installation's own table: for a million tokens each, and for a call."""

    input: Decimal
    output: Decimal
    cached: Decimal
    cache_written: Decimal
    request: Decimal

    def of(self, used: Used) -> Decimal | None:
        """What a call costs; None where it would have to be counted in tokens and none were told."""
        if not (used.tokens_in or used.tokens_out) and not self.request and (self.input or self.output):
            return None
        plain = used.tokens_in - used.tokens_cached - used.tokens_cache_written
        tokens = (
            plain * self.input
            + used.tokens_cached * self.cached
            + used.tokens_cache_written * self.cache_written
            + used.tokens_out * self.output
        )
        return self.request + tokens / MILLION


@dataclass(frozen=True, slots=True)
class Prices:
    """An installation's currency, and its own table by route."""

    currency: str
    routes: dict[str, Price]


_prices: list[Prices] = [Prices(LIBRARY_CURRENCY, {})]


def configure(*, currency: str, path: str) -> None:
    """Set the currency and load the table. Raises BadPrices, and then no price at all is known."""
    _prices[:] = [Prices("", {})]
    _prices[:] = [Prices(currency, read_table(Path(path), currency) if path else {})]


def currency() -> str:
    """The currency of every cost here."""
    return _prices[0].currency


def cost_of(route: str, used: Used) -> Decimal | None:
    """What a call by this route costs now, or None where nobody knows.

    A route is a model's name ("gpt-4o"), with its provider before it where the name alone is not enough
    ("openrouter:openai/gpt-4o").
    """
    known = _prices[0]
    if route in known.routes:
        return known.routes[route].of(used)
    if known.currency != LIBRARY_CURRENCY or not (used.tokens_in or used.tokens_out):
        return None
    return _by_library(route, used)


def read_table(path: Path, currency: str) -> dict[str, Price]:
    """The price table of a TOML file, or BadPrices."""
    try:
        document = tomllib.loads(path.read_text("utf-8"), parse_float=Decimal)
    except (OSError, UnicodeError) as error:
        raise BadPrices(f"{path} cannot be read: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise BadPrices(f"{path} is no TOML: {error}.") from error
    strange = set(document) - {"currency", "routes"}
    if strange:
        raise BadPrices(f"{path}: {', '.join(sorted(strange))}: only currency and routes are known.")
    if document.get("currency") != currency:
        raise BadPrices(
            f"{path} is in {document.get('currency') or 'no currency'}, but costs here are in {currency}"
            " (COUNTERFOIL_COST_CURRENCY). Two currencies are never added up."
        )
    routes = document.get("routes", {})
    if not isinstance(routes, dict):
        raise BadPrices(f"{path}: routes is a table of tables, such as [routes.my-model].")
    return {name: _price(path, name, given) for name, given in routes.items()}


def _price(path: Path, name: str, given: Any) -> Price:
    if not isinstance(given, dict) or not given or set(given) - _FIELDS:
        raise BadPrices(f"{path}: [routes.{name}] has one or more of {', '.join(sorted(_FIELDS))}.")
    amounts: dict[str, Decimal] = {}
    for field, value in given.items():
        amount = Decimal(value) if type(value) in (int, Decimal) else Decimal("NaN")
        if not amount.is_finite() or not 0 <= amount < 10**9:
            raise BadPrices(f"{path}: [routes.{name}] {field} is an amount of money, such as 2.50.")
        amounts[field] = amount
    full = amounts.get("input", Decimal(0))
    return Price(
        input=full,
        output=amounts.get("output", Decimal(0)),
        cached=amounts.get("cached", full),
        cache_written=amounts.get("cache_written", full),
        request=amounts.get("request", Decimal(0)),
    )


def _by_library(route: str, used: Used) -> Decimal | None:
    found = _in_library(route)
    if found is None:
        return None
    from genai_prices import Usage

    model, provider = found
    usage = Usage(
        input_tokens=used.tokens_in,
        output_tokens=used.tokens_out,
        cache_read_tokens=used.tokens_cached or None,
        cache_write_tokens=used.tokens_cache_written or None,
        output_reasoning_tokens=used.tokens_reasoning or None,
    )
    try:
        return Decimal(model.calc_price(usage, provider).total_price)
    except ValueError as error:
        log.warning("%s: its price cannot be told: %s", route, error)
        return None


@cache
def _in_library(route: str) -> tuple[Any, Any] | None:
    """The library's model and provider. It is loaded when first asked: its data take half a second and 70 MB."""
    from genai_prices.data_snapshot import get_snapshot

    named, _, rest = route.partition(":")
    for provider, model in ((None, route), (named, rest)) if rest else ((None, route),):
        try:
            found_provider, found_model = get_snapshot().find_provider_model(model, None, provider, None)
        except LookupError:
            continue
        return found_model, found_provider
    return None
