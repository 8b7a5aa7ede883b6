"""Whether a callback is its receiver's: the raw bytes are looked at before anything of them is read."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from access import signatures
from dispatch.callback_terms import Callbacks
from dispatch.comparison import Unreadable, read_json
from dispatch.paths import word_at
from dispatch.secrets import RECEIVERS, SecretMissing

LONGEST_ID = 200
SHORTEST_SECRET = 16
"""Bytes, of a scheme of the receiver's own; Standard Webhooks asks for more."""
_NOBODYS = "nobody's secret, so that nothing is told by how long it takes"


@dataclass(frozen=True, slots=True)
class Message:
    """A callback whose signature holds: what it calls itself, and when it says it was sent."""

    message_id: str
    sent_at: datetime | None


class BadMessageId(Exception):
    """A message that is signed and names itself in a way that cannot be kept."""


def read_message(
    body: bytes, headers: Mapping[str, str], terms: Callbacks, held: Sequence[str], now: datetime
) -> Message | None:
    """The message that one of the secrets signed, not too long ago; else None. Raises BadMessageId.

    Without a secret as much is computed as with one.
    """
    if terms.scheme == "standard-webhooks":
        if not signatures.is_signed(body, headers, held):
            return None
        return Message(_usable(headers["webhook-id"]), _time_of(headers["webhook-timestamp"]))
    at = _time_of(headers.get(terms.timestamp_header, "")) if terms.timestamp_header else None
    if terms.timestamp_header and (at is None or abs(now - at) > timedelta(seconds=terms.tolerance)):
        return None
    stamp = headers.get(terms.timestamp_header, "").strip() if terms.timestamp_header else ""
    signed = terms.signed.removesuffix("{body}").replace("{timestamp}", stamp).encode() + body
    shown = headers.get(terms.signature_header, "")
    good = [_is_by(secret, signed, shown, terms) for secret in held or [_NOBODYS]]
    if not (any(good) and held):
        return None
    return Message(_own_id(body, terms) or hashlib.sha256(signed).hexdigest(), at)


def secrets_of(terms: Callbacks) -> tuple[list[str], list[str]]:
    """The secrets that this process can use, and a sentence for each reference that it cannot."""
    held, faults = [], []
    for reference in terms.secrets:
        try:
            secret = RECEIVERS.read(reference)
        except SecretMissing as missing:
            faults.append(str(missing))
            continue
        fault = _fault_of(secret, reference, terms)
        if fault:
            faults.append(fault)
        else:
            held.append(secret)
    return held, faults


def _fault_of(secret: str, reference: str, terms: Callbacks) -> str:
    if terms.scheme == "standard-webhooks":
        fits, least = signatures.is_secret(secret), f"{signatures.SHORTEST_SECRET} bytes or more in base64"
    else:
        fits, least = len(secret.encode()) >= SHORTEST_SECRET, f"{SHORTEST_SECRET} characters or more"
    return "" if fits else f"{reference} holds no secret of {least}."


def _is_by(secret: str, signed: bytes, shown: str, terms: Callbacks) -> bool:
    digest = hmac.new(secret.encode(), signed, getattr(hashlib, terms.algorithm)).digest()
    text = digest.hex() if terms.encoding == "hex" else base64.b64encode(digest).decode()
    wanted = f"{terms.signature_prefix}{text}"
    return hmac.compare_digest(wanted.encode(), shown.strip().encode("utf-8", "replace"))


def _time_of(text: str) -> datetime | None:
    text = text.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 11):
        return None
    return datetime.fromtimestamp(int(text), UTC)


def _own_id(body: bytes, terms: Callbacks) -> str:
    if not terms.id_path:
        return ""
    try:
        return _usable(word_at(read_json(body), terms.id_path))
    except Unreadable:
        return ""


def _usable(message_id: str) -> str:
    if len(message_id) > LONGEST_ID or not message_id.isprintable():
        raise BadMessageId(f"A message's id has up to {LONGEST_ID} printable characters.")
    return message_id
