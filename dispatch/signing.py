"""The signature of a request, made at the moment of sending over the very bytes that are sent. Pure, its time given."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from urllib.parse import urlsplit

from dispatch.authentication import PLACE, Signing
from dispatch.wire import Request


def signed_headers(signing: Signing, secret: str, request: Request, *, key: str, at: int) -> dict[str, str]:
    """The headers that sign a request. `at`: seconds since 1970."""
    parts = urlsplit(request.url)
    values = {
        "body": request.body,
        "timestamp": str(at).encode(),
        "method": request.method.encode(),
        "path": (parts.path + (f"?{parts.query}" if parts.query else "")).encode(),
        "operation_key": key.encode(),
    }
    made = hmac.new(secret.encode(), _filled(signing.signs, values), getattr(hashlib, signing.algorithm))
    signature = made.hexdigest() if signing.encoding == "hex" else b64encode(made.digest()).decode()
    shown = {"signature": signature.encode(), "timestamp": values["timestamp"]}
    headers = {signing.header: _filled(signing.value, shown).decode()}
    if signing.timestamp_header:
        headers[signing.timestamp_header] = str(at)
    return headers


def _filled(template: str, values: dict[str, bytes]) -> bytes:
    # Bytes beside bytes: a body need not be text.
    pieces = PLACE.split(template)
    return b"".join(values[p] if n % 2 else p.encode() for n, p in enumerate(pieces))
