"""Secrets are replaced wherever Counterfoil writes a message: by value where it knows them, by shape where not."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

from web import redaction
from web.redaction import HidingFormatter, hide


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SHOP_API_KEY", "k/9 x+Ünder\n7")
    monkeypatch.setenv("SHORT_TOKEN", "none")
    monkeypatch.setenv("KEYBOARD_LAYOUT", "de-latin1-nodeadkeys")
    monkeypatch.setenv("SOME_URL", "postgresql://me:pass-word-7@host:5432/db")
    redaction._values.cache_clear()
    yield
    redaction._values.cache_clear()


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("the key k/9 x+Ünder\n7.", "the key [hidden]."),
        ("?k=k%2F9%20x%2B%C3%9Cnder%0A7", "?k=[hidden]"),
        ('{"k": "k/9 x+\\u00dcnder\\n7"}', '{"k": "[hidden]"}'),
        ("{'k': 'k/9 x+Ünder\\n7'}", "{'k': '[hidden]'}"),
        ("it said pass-word-7 twice: pass-word-7", "it said [hidden] twice: [hidden]"),
        ("none of de-latin1-nodeadkeys", "none of de-latin1-nodeadkeys"),
        ("GET https://me:p@ss@shop.example/a?b=1 failed", "GET https://[hidden]@shop.example/a?b=1 failed"),
        ("GET https://shop.example/a@b", "GET https://shop.example/a@b"),
        ("Authorization: Digest a=1, b=2\nHost: x", "Authorization: [hidden]\nHost: x"),
        ("{'Authorization': 'Bearer abc', 'Host': 'x'}", "{'Authorization': '[hidden]', 'Host': 'x'}"),
        ("[(b'Proxy-Authorization', b'Basic YTpi')]", "[(b'Proxy-Authorization', b'[hidden]')]"),
        ("set-cookie: a=b; path=/", "set-cookie: [hidden]"),
        ("sent bearer abcdefghijkl.mn", "sent bearer [hidden]"),
        ("a bearer of news", "a bearer of news"),
        ("password=hunter22&x=1", "password=[hidden]&x=1"),
        ('"api_key": "abcd1234"', '"api_key": "[hidden]"'),
        ("tokens_in=1200, tokens: 7", "tokens_in=1200, tokens: 7"),
        ("Incorrect API key: sk-proj-abcDEF0123456789", "Incorrect API key: [hidden]"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0", "[hidden]"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_secret_is_replaced_and_the_rest_can_still_be_read(text: str, hidden: str) -> None:
    assert hide(text) == hidden


@pytest.mark.parametrize(
    "text",
    ["password=hunter22&x=1", 'they wrote token: "abcd1234"', "secret=abcd1234", "Authorization: Basic YTpi"],
)
def test_hiding_twice_leaves_what_was_hidden_once(text: str) -> None:
    assert hide(hide(text)) == hide(text)


def test_remembered_secret_is_hidden_from_then_on() -> None:
    assert hide("vault-value-1") == "vault-value-1"
    redaction.remember("vault-value-1")
    assert hide("vault-value-1") == "[hidden]"
    redaction._remembered.discard("vault-value-1")


def test_traceback_of_a_log_line_is_written_without_secrets() -> None:
    try:
        raise ValueError("k/9 x+Ünder\n7")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "f.py", 1, "while %s", ("pass-word-7",), (ValueError, error, error.__traceback__))  # fmt: skip
    written = HidingFormatter("{message}", style="{").format(record)
    assert written.startswith("while [hidden]\nTraceback")
    assert written.endswith("ValueError: [hidden]")


@pytest.mark.parametrize(
    "piece", ["a-", "a", "Authorization: ", "x://", "token", "eyJaaaaaaaa.", "' ", "bearer ", "\\", "sk-"]
)
def test_no_text_makes_hiding_slow(piece: str) -> None:
    began = time.perf_counter()
    hide((piece * 20_000)[:20_000])
    assert time.perf_counter() - began < 1.0
