"""The rows of a delimited file, one after the other, with where each begins and ends. Nothing is held but one row.

Whatever is wrong with one row stays with it: bytes that do not decode, quotes that do not fit, a row without an end. The
rows after it are read as if it had been right.
"""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple

from statements.lines import Problem, printable

LONGEST_ROW = 100_000
"""Bytes of one row. What is longer has lost a quote, or is no table."""
MOST_LINES = 200
"""Lines of one row. One that does not end costs as many, and each line of a file may begin such a row."""
csv.field_size_limit(LONGEST_ROW + 1)


class Row(NamedTuple):
    """`number`: of its first line in the file, from 1. `end`: the byte after it. `cells` are empty with a problem."""

    number: int
    text: str
    cells: list[str]
    end: int
    lines: int
    problem: Problem | None = None


class Piece(NamedTuple):
    """One line with its line end, as bytes that decode by themselves; `size` is what it takes in the file."""

    content: bytes
    size: int
    whole: bool = True


class _Endless(Exception):
    """The row that is being read goes on for too long."""


def rows(
    pieces: Iterator[Piece], *, encoding: str, delimiter: str, position: int, line: int
) -> Iterator[Row]:
    """Every row from `position` on, whose line is `line`. Blank ones come with no cells."""
    feed = _Feed(pieces, encoding, position)
    reader = csv.reader(feed, delimiter=delimiter, strict=True)
    while True:
        try:
            cells = next(reader)
        except StopIteration:
            return
        except (csv.Error, UnicodeDecodeError, _Endless) as wrong:
            problem = _problem(wrong, feed)
            feed.give_back_all_but_one()
            yield Row(line, printable(feed.shown()), [], feed.end, len(feed.taken), problem)
            reader = csv.reader(feed, delimiter=delimiter, strict=True)
        else:
            if len(feed.taken) == 1:
                yield Row(line, feed.texts[0].rstrip("\r\n"), cells, feed.end, 1)
            else:
                yield Row(line, "".join(feed.texts).rstrip("\r\n"), cells, feed.end, len(feed.taken))
        line += len(feed.taken)
        feed.begin()


class _Feed:
    """Gives the reader one line after the other, and remembers those of the row that is being read."""

    def __init__(self, pieces: Iterator[Piece], encoding: str, position: int) -> None:
        self._pieces = pieces
        self._given_back: deque[Piece] = deque()
        self._encoding = encoding
        self._length = 0
        self.end = position
        self.taken: list[Piece] = []
        self.texts: list[str] = []

    def __iter__(self) -> _Feed:
        return self

    def __next__(self) -> str:
        piece = self._given_back.popleft() if self._given_back else next(self._pieces)
        self.taken.append(piece)
        self.end += piece.size
        self._length += piece.size
        if self._length > LONGEST_ROW or len(self.taken) > MOST_LINES or not piece.whole:
            raise _Endless
        text = piece.content.decode(self._encoding)
        self.texts.append(text)
        return text

    def begin(self) -> None:
        """The next line begins a row."""
        self.taken, self.texts, self._length = [], [], 0

    def give_back_all_but_one(self) -> None:
        """A row that is wrong ends with its first line; the others may be right."""
        for piece in reversed(self.taken[1:]):
            self._given_back.appendleft(piece)
            self.end -= piece.size
        self.taken = self.taken[:1]

    def shown(self) -> str:
        """The row as far as it can be shown."""
        first = self.taken[0].content[:400] if self.taken else b""
        return first.decode(self._encoding, errors="backslashreplace").rstrip("\r\n")


def _problem(wrong: Exception, feed: _Feed) -> Problem:
    shown = printable(feed.shown())
    if isinstance(wrong, UnicodeDecodeError):
        byte = wrong.object[wrong.start]
        if wrong.reason == "unexpected end of data" and wrong.end == len(wrong.object):
            return Problem("", shown, "The file ends in the middle of a character: a part of it is missing.")
        return Problem("", shown, f"Byte 0x{byte:02X} is no character in {wrong.encoding}: see the encoding.")
    if isinstance(wrong, _Endless):
        return Problem(
            "",
            shown,
            f"The row does not end within {LONGEST_ROW:,} bytes or {MOST_LINES} lines. Is a quotation mark missing in it?",
        )
    return Problem("", shown, f"The quotation marks of this row do not fit ({wrong}).")


def pieces(block_at: Callable[[int], bytes], position: int, size: int, encoding: str) -> Iterator[Piece]:
    """The lines of a file from `position` on. `block_at` gives some bytes from there, of any length but none."""
    cut = _cut_16(encoding) if encoding.startswith("utf-16") else _cut_8
    rest = b""
    while position < size or rest:
        block = block_at(position) if position < size else b""
        position += len(block)
        whole, rest = cut(rest + block, last=position >= size)
        yield from whole
        if len(rest) > LONGEST_ROW:
            skipped, rest, position = _skip(rest, block_at, position, size, encoding)
            yield skipped


def _cut_8(content: bytes, *, last: bool) -> tuple[list[Piece], bytes]:
    """Whole lines, and what is left. A last "\\r" may be half of a line end."""
    lines = content.splitlines(keepends=True)
    rest = lines.pop() if lines and not last and not lines[-1].endswith(b"\n") else b""
    return [_piece(line) for line in lines], rest


def _piece(line: bytes) -> Piece:
    size = len(line)
    return Piece(line, size) if size <= LONGEST_ROW else Piece(line[:400], size, whole=False)


def _cut_16(encoding: str) -> Callable[..., tuple[list[Piece], bytes]]:
    newline = "\n".encode(encoding)

    def cut(content: bytes, *, last: bool) -> tuple[list[Piece], bytes]:
        found, begin, at = [], 0, 0
        while (at := content.find(newline, at)) >= 0:
            if (at - begin) % 2:  # the halves of two characters
                at += 1
                continue
            found.append(content[begin : at + 2])
            begin = at = at + 2
        rest = content[begin:]
        if last and rest:
            found.append(rest)
            rest = b""
        return [_piece(line) for line in found], rest

    return cut


def _skip(
    begun: bytes, block_at: Callable[[int], bytes], position: int, size: int, encoding: str
) -> tuple[Piece, bytes, int]:
    """A line that is far too long, up to its end without its being kept."""
    newline, step = ("\n".encode(encoding), 2) if encoding.startswith("utf-16") else (b"\n", 1)
    length = len(begun)
    while position < size:
        block = block_at(position)
        position += len(block)
        at = block.find(newline)
        while at >= 0 and (length + at) % step:
            at = block.find(newline, at + 1)
        if at >= 0:
            end = at + len(newline)
            return Piece(begun[:400], length + end, whole=False), block[end:], position
        length += len(block)
    return Piece(begun[:400], length, whole=False), b"", position
