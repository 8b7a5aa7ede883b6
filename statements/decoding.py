"""How the bytes of a file become text, told from all of them while they are uploaded, with what showed it.

Strict UTF-8 comes first, since hardly anything else is valid UTF-8 by chance; what is not goes by the mapping. Nothing is
ever ignored or replaced: a byte that does not fit is an error of its row.
"""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass

UTF_8, UTF_16_LE, UTF_16_BE, OTHER = "utf-8", "utf-16-le", "utf-16-be", ""
"""OTHER: none of these, so that the mapping says what it is."""
MARKS = ((codecs.BOM_UTF8, UTF_8), (codecs.BOM_UTF16_LE, UTF_16_LE), (codecs.BOM_UTF16_BE, UTF_16_BE))
NAMES = {UTF_8: "UTF-8", UTF_16_LE: "UTF-16", UTF_16_BE: "UTF-16"}
_LOOKED_AT = 4096


@dataclass(frozen=True, slots=True)
class Decoding:
    """`encoding` is Python's name, or OTHER."""

    encoding: str
    evidence: str


class Survey:
    """Takes a file in chunks; afterwards knows its digest, its size, and how it is decoded."""

    def __init__(self) -> None:
        self.size = 0
        self.head = b""
        self._digest = hashlib.sha256()
        self._utf_8 = codecs.getincrementaldecoder("utf-8")()
        self._wrong_at: int | None = None
        self._newlines = 0

    def take(self, chunk: bytes) -> None:
        """The next bytes."""
        self._digest.update(chunk)
        self.head += chunk[: _LOOKED_AT - len(self.head)]
        if self._wrong_at is None:
            pending = len(self._utf_8.getstate()[0])
            try:
                self._utf_8.decode(chunk)
                self._newlines += chunk.count(b"\n")
            except UnicodeDecodeError as wrong:
                self._wrong_at = self.size - pending + wrong.start
                self._newlines += chunk.count(b"\n", 0, max(0, wrong.start - pending))
        self.size += len(chunk)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    def decoding(self) -> Decoding:
        """What all of it says."""
        for mark, encoding in MARKS:
            if self.head.startswith(mark) and (encoding != UTF_8 or self._is_utf_8()):
                return Decoding(encoding, f"{NAMES[encoding]}: it begins with its byte order mark.")
        if (sixteen := _sixteen_bits(self.head)) is not None:
            return Decoding(sixteen, "UTF-16: every second byte at its start is nought.")
        if self._is_utf_8():
            return Decoding(UTF_8, "UTF-8: every byte fits.")
        if self._wrong_at is None:
            return Decoding(
                UTF_8, "UTF-8, but it ends in the middle of a character: a part of the file is missing."
            )
        line = f"line {self._newlines + 1:,}"
        return Decoding(OTHER, f"Not UTF-8: a byte in {line} does not fit, so the mapping says what it is.")

    def _is_utf_8(self) -> bool:
        return self._wrong_at is None and not self._utf_8.getstate()[0]


def mark_length(head: bytes, encoding: str) -> int:
    """How many bytes at the start of a file are its byte order mark and no text."""
    return next((len(mark) for mark, of in MARKS if of == encoding and head.startswith(mark)), 0)


def _sixteen_bits(head: bytes) -> str | None:
    """UTF-16 without a mark: of ordinary text one half of the bytes is nought."""
    if len(head) < 8:
        return None
    even, odd = head[0::2], head[1::2]
    if odd.count(0) > 0.8 * len(odd) and not even.count(0):
        return UTF_16_LE
    if even.count(0) > 0.8 * len(even) and not odd.count(0):
        return UTF_16_BE
    return None
