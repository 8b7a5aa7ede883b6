"""A draft's body as the bytes of a request. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from approvals.canonical import NotCanonical, write
from approvals.rendering import CannotRender
from dispatch.contracts import Action
from dispatch.forms import pairs
from dispatch.templates import as_value

CONTENT_TYPES = {"json": "application/json", "form": "application/x-www-form-urlencoded", "none": ""}


def content_of(action: Action, values: Mapping[str, Any]) -> dict[str, Any]:
    """What is sent, before it is encoded: the draft's body, or what the action's mapping makes of the draft."""
    if not action.body:
        content: dict[str, Any] = dict(values["body"])
        return content
    made: dict[str, Any] = {}
    for place, given in action.body.items():
        _put(made, place, as_value(given, values) if isinstance(given, str) else given)
    return made


def encode(action: Action, content: Mapping[str, Any]) -> bytes:
    """The bytes of a body. Raises CannotRender."""
    if action.body_as == "none":
        return b""
    plain = _plain(content)
    if action.body_as == "form":
        return urlencode(list(pairs("", plain))).encode("ascii")
    try:
        return write(plain).encode()
    except NotCanonical as wrong:
        raise CannotRender(str(wrong)) from wrong


def _put(content: dict[str, Any], place: str, value: Any) -> None:
    *outer, last = place.split(".")
    for name in outer:
        content = content.setdefault(name, {})
    content[last] = value


def _plain(value: Any) -> Any:
    """Decimals as text: a number would come back as another one."""
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise CannotRender(f"{value} is no number that can be sent.")
        return f"{value:f}"
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
