"""The installation's signature under what it exports: Ed25519 (RFC 8032), over canonical JSON. Pure."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from approvals import canonical


class BadKey(Exception):
    """This is no key of 32 bytes, written in hexadecimal."""


def public_key(seed: str) -> str:
    """The public key of a secret one, both in hexadecimal."""
    raw = _private(seed).public_key()
    return raw.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()


def fingerprint(key: str) -> str:
    """A public key as people compare it: the first 16 hexadecimal digits of its SHA-256, in fours."""
    digest = hashlib.sha256(_bytes(key)).hexdigest()[:16]
    return " ".join(digest[i : i + 4] for i in range(0, 16, 4))


def sign(value: dict[str, Any], seed: str) -> dict[str, Any]:
    """The value with its signature and the key that verifies it."""
    signed = {**value, "key": public_key(seed)}
    signature = _private(seed).sign(canonical.write(signed).encode())
    return {**signed, "signature": base64.b64encode(signature).decode()}


def is_signed(value: dict[str, Any]) -> bool:
    """Whether the signature in the value is that of the key in the value, over all the rest of it."""
    rest = {name: inside for name, inside in value.items() if name != "signature"}
    try:
        key = Ed25519PublicKey.from_public_bytes(_bytes(str(value["key"])))
        key.verify(base64.b64decode(str(value["signature"]), validate=True), canonical.write(rest).encode())
    except (InvalidSignature, BadKey, KeyError, ValueError):
        return False
    return True


def _private(seed: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(_bytes(seed))


def _bytes(key: str) -> bytes:
    if not re.fullmatch("[0-9a-f]{64}", key):
        raise BadKey("A key is 64 hexadecimal digits.")
    return bytes.fromhex(key)
