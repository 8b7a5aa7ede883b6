"""Connectors as people write them, with the mistakes that they make; and how a package of theirs is found."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from approvals.rendering import FrozenRequest
from dispatch.connectors import calling, registry
from dispatch.connectors.http import HttpConnector
from dispatch.connectors.seam import Credentials, Sending
from dispatch.contracts import Contract
from dispatch.requests import Place
from dispatch.wire import Barrier, Exchange, NotBegun, Request, exchange
from workflows.authoring import OperationDraft

HERE = __name__


class Plain(HttpConnector):
    """Has never heard of the barrier, and says so."""

    calls_barrier = False

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        return exchange(sending.request, sending.contract.timeouts)


class Forgetful(HttpConnector):
    """Says that it calls the barrier, and does not."""

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        return exchange(sending.request, sending.contract.timeouts)


class Breaks(HttpConnector):
    """Falls over with the answer in its hand."""

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        super().send(sending, barrier)
        raise ZeroDivisionError("with password=hunter2-hunter2 in it")


class SendsAndBreaks(HttpConnector):
    """Says that it calls the barrier, sends without, and falls over with the answer in its hand."""

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        exchange(sending.request, sending.contract.timeouts)
        raise TimeoutError("no answer in time")


class BreaksBefore(HttpConnector):
    """Falls over before it has done anything, and says so."""

    def send(self, sending: Sending, barrier: Barrier) -> Exchange:
        raise NotBegun("no region is set")


class CannotSign(HttpConnector):
    """Falls over where it signs."""

    def authenticate(
        self, request: Request, contract: Contract, credentials: Credentials, key: str, token: str
    ) -> Request:
        raise KeyError("region")


class Volatile(HttpConnector):
    """Puts into the request what is another at each render."""

    def render(
        self, draft: OperationDraft, contract: Contract, place: Place, key: str | None
    ) -> FrozenRequest:
        frozen = super().render(draft, contract, place, key)
        return replace(frozen, headers={**frozen.headers, "X-Trace": secrets.token_hex(8)})


@contextmanager
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch, **entries: str) -> Iterator[None]:
    """While it lasts, a package on the path names these connectors: entry=module:attribute."""
    metadata = folder / "own-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in entries.items())
    (metadata / "entry_points.txt").write_text(f"[{registry.ENTRY_POINT_GROUP}]\n{lines}")
    monkeypatch.syspath_prepend(str(folder))
    registry.connectors.cache_clear()
    calling._forgetful.clear()
    try:
        yield
    finally:
        registry.connectors.cache_clear()
        calling._forgetful.clear()
