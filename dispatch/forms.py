"""Forms (`application/x-www-form-urlencoded`): how nested values are written, and read back to be compared. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl


def is_form(sent: bytes) -> bool:
    """Whether a frozen body is a form. JSON's begins with a brace, which a form would have escaped."""
    return bool(sent) and not sent.startswith(b"{")


def values(sent: bytes) -> dict[str, str]:
    """Each field of a form with its text."""
    return dict(parse_qsl(sent.decode("utf-8", "replace"), keep_blank_values=True))


def pairs(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """The fields of a value: `metadata[key]`, `items[0][price]`, as Stripe and PHP read them."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield from pairs(f"{name}[{inner}]" if name else str(inner), one)
    elif isinstance(value, list | tuple):
        for number, one in enumerate(value):
            yield from pairs(f"{name}[{number}]", one)
    elif isinstance(value, bool):
        yield name, "true" if value else "false"
    else:
        yield name, "" if value is None else str(value)
