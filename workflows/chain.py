"""The hash chain of a job's journal, outside of the database that wrote it. Pure: what verifies needs nothing else.

Each row's hash is the SHA-256 of the row before it and of its own content, in the frames that the database's trigger
makes (`workflows/database.py`): integers of eight bytes, texts behind their length in four.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Link:
    """One row of a chain. `numbers`: tenant, job and sequence, or tenant and sequence; `texts`: event, and states."""

    numbers: Sequence[int]
    texts: Sequence[str]
    actor_kind: str
    actor_id: int
    actor_name: str
    evidence: str
    at: datetime
    previous: bytes


def hash_of(link: Link) -> bytes:
    """The hash that the database wrote for this row, if nothing of it was changed."""
    framed = bytes(link.previous) + struct.pack(f">{len(link.numbers) + 1}q", *link.numbers, micros(link.at))
    framed += b"".join(map(_frame, (*link.texts, link.actor_kind)))
    framed += struct.pack(">q", link.actor_id) + _frame(link.actor_name) + _frame(link.evidence)
    return hashlib.sha256(framed).digest()


def micros(at: datetime) -> int:
    """Microseconds since 1970, as the database counts them."""
    return (at - EPOCH) // timedelta(microseconds=1)


def _frame(text: str) -> bytes:
    raw = text.encode()
    return struct.pack(">i", len(raw)) + raw
