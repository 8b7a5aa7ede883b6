"""System checks: settings with which work could be lost or done twice are refused at start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from babel.numbers import list_currencies
from django.conf import settings
from django.core.checks import WARNING, CheckMessage, Error, Tags, register
from django.db import DataError, ProgrammingError

from workflows import known, pricing, registry


@register()
def queue_settings(**_: Any) -> list[CheckMessage]:
    """q2 must not hand a task out again while it may still run, nor try for ever."""
    queue = settings.Q_CLUSTER
    timeout, retry = queue.get("timeout"), queue.get("retry")
    wrong: list[CheckMessage] = []
    if not timeout or not retry or retry <= timeout:
        wrong.append(
            Error("Q_CLUSTER needs a timeout, and a retry that is longer than it.", id="counterfoil.E001")
        )
    if not queue.get("ack_failures") or queue.get("max_attempts") != 1 or queue.get("catch_up", True):
        wrong.append(
            Error(
                "Q_CLUSTER needs ack_failures=True, max_attempts=1 and catch_up=False.", id="counterfoil.E002"
            )
        )
    return wrong


@register()
def workflows_load(**_: Any) -> list[CheckMessage]:
    """A package that cannot be loaded is told at every start. It stops nothing: other packages have work to do."""
    return [CheckMessage(WARNING, str(u), id="counterfoil.W001") for u in registry.workflows().unusable]


def load_prices() -> None:
    """Called when the app is ready; `prices_are_clear` tells what was wrong, and stops every command."""
    _bad_prices.clear()
    try:
        pricing.configure(currency=settings.COUNTERFOIL_COST_CURRENCY, path=settings.COUNTERFOIL_PRICES)
    except pricing.BadPrices as bad:
        _bad_prices.append(str(bad))


_bad_prices: list[str] = []


@register()
def prices_are_clear(**_: Any) -> list[CheckMessage]:
    """Costs in a currency that nobody meant, or by half a price table, would be figures that are wrong."""
    wrong: list[CheckMessage] = [Error(said, id="counterfoil.E003") for said in _bad_prices]
    if settings.COUNTERFOIL_COST_CURRENCY not in list_currencies():
        said = f"COUNTERFOIL_COST_CURRENCY: {settings.COUNTERFOIL_COST_CURRENCY!r} is no currency; give three letters, such as EUR."
        wrong.append(Error(said, id="counterfoil.E004"))
    return wrong


@register()
def revisions_are_clear(**_: Any) -> list[CheckMessage]:
    """One definition a revision, and one revision that new jobs take."""
    wrong: list[CheckMessage] = [Error(str(t), id="counterfoil.E005") for t in registry.workflows().twice]
    for name in sorted({name for name, _ in registry.workflows()}):
        try:
            registry.current(name)
        except registry.NoCurrentRevision as unclear:
            wrong.append(Error(str(unclear), id="counterfoil.E006"))
    return wrong


@register(Tags.database)
def definitions_stay_what_they_are(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """What was deployed under a revision is still that. Asked wherever a database may be: at every start."""
    if not databases:
        return []
    try:
        return [Error(sentence, id="counterfoil.E007") for sentence in known.changed()]
    except (ProgrammingError, DataError):  # no table, no role: nothing has been deployed here yet
        return []
