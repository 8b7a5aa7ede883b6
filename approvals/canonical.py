"""JSON that reads the same everywhere, or not at all: the only way in and out of a proposal's document.

Floats, integers that other readers round, NUL, lone surrogates and duplicate keys are refused instead of repaired:
each of them is something that two readers of the same bytes would take differently.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import rfc8785

LARGEST_INTEGER = 2**53 - 1
DEEPEST = 50


class NotCanonical(Exception):
    """The value has no form that all readers agree on. The message is a sentence that names the place."""


def parse(text: str) -> Any:
    """The value of a JSON text, or NotCanonical."""
    try:
        value = json.loads(
            text, parse_float=_no_float, parse_constant=_no_float, object_pairs_hook=_no_duplicates
        )
    except (ValueError, RecursionError) as broken:
        raise NotCanonical(f"This is not JSON that can be kept: {broken}.") from broken
    check(value)
    return value


def write(value: Any) -> str:
    """The one canonical text of a value (RFC 8785), or NotCanonical."""
    check(value)
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    # What Python writes of ASCII is RFC 8785's form already, in a fifth of the time; of other texts it sorts keys otherwise.
    return text if text.isascii() else rfc8785.dumps(value).decode()


def sha256(data: str | bytes) -> str:
    """SHA-256 in hexadecimal; a text counts as its UTF-8 bytes."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def check(value: Any, path: str = "", depth: int = 0) -> None:
    """Raise NotCanonical unless the value is made of texts, safe integers, booleans, nulls, lists and objects."""
    if depth < DEEPEST and _is_plain(value):
        return
    where = path.lstrip(".") or "the document"
    if depth > DEEPEST:
        raise NotCanonical(f"{where} is nested deeper than {DEEPEST} levels.")
    if isinstance(value, str):
        _check_text(value, where)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        if abs(value) > LARGEST_INTEGER:
            raise NotCanonical(f"{where} is too large for a JSON number; write it as text.")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise NotCanonical(f"{where} has a key that is not text.")
            if not _is_plain(key):
                _check_text(key, f"a key of {where}")
            if depth >= DEEPEST or not _is_plain(inner):
                check(inner, f"{path}.{key}", depth + 1)
    elif isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        for index, inner in enumerate(value):
            check(inner, f"{path}[{index}]", depth + 1)
    else:
        raise NotCanonical(f"{where} is a {type(value).__name__}; write numbers with decimals as text.")


def _is_plain(value: Any) -> bool:
    """Whether it is what nearly everything is: a text in ASCII, a small integer, a boolean or null. Quick to see."""
    kind = type(value)
    if kind is str:
        return value.isascii() and "\x00" not in value
    return value is None or kind is bool or (kind is int and -LARGEST_INTEGER <= value <= LARGEST_INTEGER)


def _check_text(text: str, where: str) -> None:
    if "\x00" in text:
        raise NotCanonical(f"{where} contains a NUL character, which cannot be stored.")
    try:
        text.encode()
    except UnicodeEncodeError as broken:
        raise NotCanonical(f"{where} contains half a character (a lone surrogate).") from broken


def _no_float(literal: str) -> Any:
    raise NotCanonical(f"{literal} is a number with decimals or no number; write it as text.")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise NotCanonical(f'The key "{key}" stands there twice.')
        found[key] = value
    return found
