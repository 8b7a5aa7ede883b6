"""From an operation's draft to the exact request: the seam to the room that knows receivers and their contracts.

That room registers one function. What it returns is what an approver signs and what is sent, byte for byte.
"""

from __future__ import annotations

import re
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from workflows.authoring import OperationDraft

LEFT_OUT = ("authorization", "cookie", "date", "proxy-authorization", "signature", "signature-input")
"""Headers that are made at the moment of sending and carry secrets or the time: never frozen, never signed."""

KEY_ALPHABET = string.ascii_letters + string.digits
LEAST_KEY_BITS = 80
_METHOD = re.compile(r"[A-Z]{1,10}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class CannotRender(Exception):
    """No request can be made of this draft (unknown receiver, a body that the contract refuses). A sentence."""


@dataclass(frozen=True, slots=True)
class FrozenRequest:
    """Everything that will be sent for one operation, but for the headers in LEFT_OUT."""

    operation_key: str
    receiver: str
    contract_version: int
    account: str
    record: str
    title: str
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes


RendersOperations = Callable[[OperationDraft, str | None, datetime], FrozenRequest]
_renderer: list[RendersOperations] = []


def renders_operations(render: RendersOperations) -> RendersOperations | None:
    """Register the one renderer, in place of the one before, which is returned.

    It is called as `render(draft, key, now)` in the freezing transaction and its tenant's scope. With no key it makes
    one that its contract can carry (`new_operation_key`). It raises CannotRender, and calls no network.
    """
    before = _renderer[0] if _renderer else None
    _renderer[:] = [render]
    return before


def render(draft: OperationDraft, key: str | None, now: datetime) -> FrozenRequest:
    """The exact request of one operation, checked for what cannot be frozen. Raises CannotRender."""
    if not _renderer:
        raise CannotRender("No room here knows how to send anything.")
    request = _renderer[0](draft, key, now)
    for problem in _problems(request):
        raise CannotRender(f"The request for {draft.record} at {draft.receiver} cannot be frozen: {problem}.")
    return request


def new_operation_key(*, max_length: int = 32, alphabet: str = KEY_ALPHABET) -> str:
    """A random key, unique across installations, of letters that the receiver's contract allows.

    Raises CannotRender where the contract leaves too little room for a key that nobody else will ever make.
    """
    length = min(max_length, 64)
    if len(set(alphabet)) < 2 or length * (len(set(alphabet)).bit_length() - 1) < LEAST_KEY_BITS:
        raise CannotRender(
            f"The contract's operation keys of {max_length} characters are too short to be unique."
        )
    return "".join(secrets.choice(alphabet) for _ in range(length))


def _problems(request: FrozenRequest) -> list[str]:
    found = [
        f"its {name} is longer than {longest} characters"
        for name, value, longest in (
            ("operation key", request.operation_key, 100),
            ("receiver", request.receiver, 100),
            ("account", request.account, 200),
            ("record", request.record, 300),
            ("title", request.title, 300),
        )
        if len(value) > longest
    ]
    if not request.operation_key or not request.operation_key.isprintable():
        found.append("it has no operation key that can be shown")
    if not _METHOD.fullmatch(request.method):
        found.append("its method is not a word in capitals")
    return found + _target_problems(request.target) + _header_problems(request.headers)


def _target_problems(target: str) -> list[str]:
    try:
        parts = urlsplit(target)
        username = parts.username
    except ValueError:
        return ["its target is not an address"]
    if not parts.scheme or not (parts.netloc or parts.path) or not target.isprintable():
        return ["its target is not absolute"]
    if username is not None and parts.netloc:
        return ["its target carries a user name, which would be frozen"]
    return []


def _header_problems(headers: Mapping[str, str]) -> list[str]:
    found = []
    lowered = [name.lower() for name in headers]
    if len(set(lowered)) < len(lowered):
        found.append("a header stands there twice")
    for name, value in headers.items():
        if name.lower() in LEFT_OUT:
            found.append(f"the header {name} is never frozen")
        elif not _HEADER.fullmatch(name) or not (value.isprintable() and value.isascii()):
            found.append(f"the header {name!r} cannot be sent as it is")
    return found
