"""Cutting a text into passages that a model can take: at paragraphs, else sentences, else words; each a little longer
than its own part, so that what stands on a border stands whole in one of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

LONGEST, OVERLAP = 1200, 150
_BORDERS = ((re.compile(r"\n{2,}"), "\n\n"), (re.compile(r"(?<=[.!?])\s+"), " "), (re.compile(r"\s+"), " "))
Piece = tuple[str, str]
"""What stands before a piece when it is put to the one before, and the piece."""


def passages(text: str, *, longest: int = LONGEST, overlap: int = OVERLAP) -> list[str]:
    """Passages in the order of the text, none longer than `longest` characters, none blank; together all of its words.

    Each but the first begins with up to `overlap` characters of the end of the one before, in whole words.
    """
    if not 0 <= overlap < longest // 2:
        raise ValueError("the overlap is less than half of the longest passage")
    room = longest - overlap - 1
    parts = list(_joined(_pieces(text.strip(), room), room))
    return [_with_end_of(before, part, overlap) for before, part in zip(["", *parts], parts, strict=False)]


def _pieces(text: str, longest: int, kind: int = 0, joint: str = "") -> Iterator[Piece]:
    """The text cut at the first kind of border, and what is still too long at the next kind."""
    if len(text) <= longest:
        if text.strip():
            yield joint, text.strip()
        return
    if kind == len(_BORDERS):
        yield from ((joint if not at else "", text[at : at + longest]) for at in range(0, len(text), longest))
        return
    border, own = _BORDERS[kind]
    for number, piece in enumerate(border.split(text)):
        yield from _pieces(piece, longest, kind + 1, own if number else joint)


def _joined(pieces: Iterable[Piece], longest: int) -> Iterator[str]:
    """Neighbours put together while they fit."""
    held = ""
    for joint, piece in pieces:
        together = f"{held}{joint}{piece}" if held else piece
        if len(together) > longest:
            yield held
            held = piece
        else:
            held = together
    if held:
        yield held


def _with_end_of(before: str, part: str, overlap: int) -> str:
    end = before[-overlap:] if overlap else ""
    if len(before) > len(end):
        end = re.sub(r"^\S*\s*", "", end)  # a cut word says nothing
    return f"{end} {part}" if end else part
