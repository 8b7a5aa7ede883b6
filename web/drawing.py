"""The few things that are drawn rather than written. Attributes only: the content security policy refuses styles."""

from __future__ import annotations

import re

DRAWN_BYTES = 12


def hex_of(value: bytes | memoryview | str) -> str:
    """A digest as lower-case hex, with or without a leading "sha256:"."""
    if isinstance(value, bytes | memoryview):
        return bytes(value).hex()
    return value.rpartition(":")[2].strip().lower()


def short_digest(hex_digest: str) -> str:
    """9f2c41ab…e07d; what is too short to be cut stays whole."""
    return f"{hex_digest[:8]}…{hex_digest[-4:]}" if len(hex_digest) > 16 else hex_digest


def bars_path(hex_digest: str) -> str:
    """One bar for each set bit of the first twelve bytes, neighbours joined, 192 by 20."""
    raw = bytes.fromhex(hex_digest[: 2 * DRAWN_BYTES])
    bits = "".join(f"{byte:08b}" for byte in raw)
    return "".join(
        f"M{2 * run.start()} 0h{2 * len(run.group())}v20H{2 * run.start()}z"
        for run in re.finditer("1+", bits)
    )


def initials(handle: str) -> str:
    """PQ for p.quint, D for d."""
    words = [w for w in re.split(r"[^\w]+|_", handle) if w]
    return "".join(w[0] for w in words[:2]).upper()
