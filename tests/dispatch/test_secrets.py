"""A receiver's secret, once a process has read it, is in none of that process's messages."""

from __future__ import annotations

import pytest

from dispatch.presets import KEYED
from dispatch.secrets import SecretMissing, secret_headers
from web import redaction
from web.redaction import hide

SECRET = "r3ceiver-secret-7"


def test_secret_that_was_read_is_hidden_from_then_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_SHOP", SECRET)
    try:
        headers = secret_headers("env:COUNTERFOIL_RECEIVER_SHOP", KEYED.contract)
        assert SECRET in next(iter(headers.values()))
        assert hide(f"the shop refused {SECRET}") == "the shop refused [hidden]"
    finally:
        redaction._remembered.discard(SECRET)
        redaction._values.cache_clear()


def test_secret_that_is_not_there_is_named_by_its_reference() -> None:
    with pytest.raises(SecretMissing, match="env:COUNTERFOIL_RECEIVER_NONE is not set here"):
        secret_headers("env:COUNTERFOIL_RECEIVER_NONE", KEYED.contract)
