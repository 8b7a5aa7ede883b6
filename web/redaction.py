"""What must not be kept: secrets are replaced before a message, a trace, a model's answer or a log line is written.

Known by value: environment variables whose name says that they are secret, and whatever `remember` was given (the
secrets of receivers). Known by shape: authorization and cookie headers, credentials in URLs, `password=…` and its
like, keys of well-known makes. It costs some microseconds a text, so it is for what failed and for log lines.
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterable
from functools import cache
from urllib.parse import quote, urlsplit

HIDDEN = "[hidden]"
SHORTEST_SECRET = 8
"""A shorter value would be found in texts that have nothing to do with it."""

_SAYS_SECRET = re.compile(r"KEY(?!BOARD)|TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL", re.IGNORECASE)
_NAMED = r"api[_-]?key|access[_-]?key|private[_-]?key|token|secret|passw(?:or)?d|passphrase|signature"
_NOT_YET = rf"(?!{re.escape(HIDDEN)}(?:[\s'\"&,;)}}\]]|$))"
"""What is hidden already stays as it is: texts are looked at when they come in and again when they are kept."""
# Every repetition has an end, so that no text can make a pattern slow.
_SHAPES = (
    (re.compile(r"([a-z][a-z0-9+.-]{0,30}://)[^\s/?#'\"<>]{1,500}@", re.IGNORECASE), rf"\1{HIDDEN}@"),
    (
        re.compile(
            r"((?:proxy-)?authorization|(?:set-)?cookie|x-api-key|x-auth-token)"
            r"(['\"]?\s{0,5}[:=]\s{0,5}(?:b?['\"])?|['\"],\s{0,5}b?['\"])[^\r\n'\"]{1,4000}",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"\b(bearer|basic)\s{1,5}[A-Za-z0-9._~+/=-]{12,4000}", re.IGNORECASE), rf"\1 {HIDDEN}"),
    (
        re.compile(
            rf"({_NAMED})(['\"]?\s{{0,5}}[:=]\s{{0,5}}(?:b?['\"])?){_NOT_YET}[^\s'\"&,;)}}\]]{{4,4000}}",
            re.IGNORECASE,
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"\b(?:sk|rk|pk)[-_][A-Za-z0-9_-]{16,400}"), HIDDEN),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,255}|\bAKIA[0-9A-Z]{16}\b"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,4000}\.[\w-]{8,4000}\.[\w-]{0,4000}"), HIDDEN),
)
_remembered: set[str] = set()
"""What references were read as, and tokens."""


def remember(secret: str) -> None:
    """Hide this value too from now on, in this process."""
    if secret not in _remembered and len(secret) >= SHORTEST_SECRET:
        _remembered.add(secret)
        _values.cache_clear()
        _read.cache_clear()


def hide(text: str) -> str:
    """The text without secrets that this process knows of, and without what looks like one."""
    values = _values()
    if values is not None:
        text = values.sub(HIDDEN, text)
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def hide_read(text: str) -> str:
    """The text without the secrets that `remember` was given, and nothing else changed: for what is kept as evidence."""
    values = _read()
    return text if values is None else values.sub(HIDDEN, text)


class HidingFormatter(logging.Formatter):
    """Writes log lines, tracebacks included, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return hide(super().format(record))


@cache
def _values() -> re.Pattern[str] | None:
    """Every known secret as it may stand in a text: plain, quoted for a URL, and escaped as JSON and Python do."""
    found = set(_remembered)
    for name, value in os.environ.items():
        if _SAYS_SECRET.search(name):
            found.add(value.strip())
        found |= _password_of(value)
    return _any_of(found)


@cache
def _read() -> re.Pattern[str] | None:
    return _any_of(_remembered)


def _any_of(values: Iterable[str]) -> re.Pattern[str] | None:
    written = {form for value in values if len(value) >= SHORTEST_SECRET for form in _forms(value)}
    if not written:
        return None
    return re.compile("|".join(re.escape(form) for form in sorted(written, key=len, reverse=True)))


def _forms(value: str) -> set[str]:
    return {value, quote(value, safe=""), json.dumps(value)[1:-1], repr(value)[1:-1]}


def _password_of(value: str) -> set[str]:
    """The password in a variable that holds a URL, such as the database's."""
    if "://" not in value or "@" not in value:
        return set()
    try:
        return {urlsplit(value).password or ""}
    except ValueError:
        return set()
