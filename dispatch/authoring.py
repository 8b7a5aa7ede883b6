"""What workflows may use of this room: reading a record from a receiver, through the same careful client."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from dispatch.classification import retry_after
from dispatch.comparison import Unreadable, read_json
from dispatch.wire import Exchange
from workflows.authoring import Ctx, Permanent, Retryable

_PASSING = (408, 425, 429)
LONGEST_RETRY_AFTER = 900

Asks = Callable[[Ctx, str, str], Exchange]
stand_in: ContextVar[Asks | None] = ContextVar("stand_in", default=None)
"""Who answers instead of the tenant's receivers: the scripted ones of a test (`counterfoil.testing`)."""


def read_record(ctx: Ctx, *, receiver: str, path: str) -> dict[str, Any]:
    """GET a JSON object from a receiver of the job's tenant. Changes nothing there; never inside a transaction.

    `path` is below the receiver's address and already escaped. Raises Retryable for what can pass (no connection, no
    answer, 408, 429, 5xx), Permanent for the rest (unknown receiver, refused address, other 4xx, not JSON).
    """
    found = find_record(ctx, receiver=receiver, path=path)
    if found is None:
        raise Permanent(f"{receiver} answered 404 for {path}.")
    return found


def find_record(ctx: Ctx, *, receiver: str, path: str) -> dict[str, Any] | None:
    """`read_record`, but None where the receiver says that there is nothing (404)."""
    seen = (stand_in.get() or _ask)(ctx, receiver, path)
    if seen.status is None:
        _raise_without_answer(receiver, seen)
    if seen.status == 404:
        return None
    if seen.status in _PASSING or (seen.status or 0) >= 500:
        after = retry_after(
            seen.headers.get("retry-after", ""), now=datetime.now(UTC), longest=LONGEST_RETRY_AFTER
        )
        raise Retryable(f"{receiver} answered {seen.status}.", retry_after=after)
    if seen.status != 200:
        raise Permanent(f"{receiver} answered {seen.status} for {path}.")
    try:
        if seen.body_problem:
            raise Retryable(f"{receiver} answered with a body that is {seen.body_problem}.")
        content = read_json(seen.body)
    except Unreadable as unreadable:
        raise Permanent(f"{receiver} answered 200 for {path}, but {unreadable}.") from None
    return content


def _ask(ctx: Ctx, receiver: str, path: str) -> Exchange:
    from dispatch.reads import ask  # rows and settings, which a test of a workflow has none of

    return ask(ctx, receiver, path)


def _raise_without_answer(name: str, seen: Exchange) -> None:
    if seen.exception in ("AddressRefused", "InvalidURL", "UnsupportedProtocol", "LocalProtocolError"):
        raise Permanent(f"{name} cannot be asked: {seen.message}")
    raise Retryable(f"{name} did not answer ({seen.exception}).")
