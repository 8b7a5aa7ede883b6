"""Signatures of events from outside, as Standard Webhooks describes them: HMAC-SHA256 over id, time and body."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping, Sequence

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

PREFIX = "whsec_"
SHORTEST_SECRET = 24
"""Bytes. With fewer, a signature could be found out by trying."""
_NOBODYS = PREFIX + base64.b64encode(bytes(32)).decode()


def make_secret() -> str:
    """A new secret, as it is given to the sender and put where the reference says."""
    return PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def is_secret(text: str) -> bool:
    """Whether a text is a secret that can be used: base64 of at least 24 bytes, after whsec_ or without it."""
    try:
        return len(base64.b64decode(text.removeprefix(PREFIX), validate=True)) >= SHORTEST_SECRET
    except (binascii.Error, ValueError):
        return False


def is_signed(body: bytes, headers: Mapping[str, str], held: Sequence[str]) -> bool:
    """Whether one of the secrets signed the body, its id and its time, not more than five minutes from now.

    Without a secret as much is computed as with one, so that the time it takes tells nobody which sources there are.
    """
    named = {n: headers.get(n, "") for n in ("webhook-id", "webhook-timestamp", "webhook-signature")}
    return any(_verifies(secret, body, named) for secret in held or [_NOBODYS]) and bool(held)


def _verifies(secret: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        Webhook(secret).verify(body, headers, json_parse=False)
    except (WebhookVerificationError, ValueError):  # ValueError: what is no base64, no UTF-8, or no pair
        return False
    return True
