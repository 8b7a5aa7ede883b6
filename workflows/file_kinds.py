"""What a file is, told from its bytes; never from its name or from what a browser says. Nothing is opened here.

A hostile file is taken for what it pretends to be: whoever reads it finds out, in a process that may die of it.
"""

from __future__ import annotations

import re

from web.hidden import is_hidden
from workflows.authoring.files import FileKind

LONGEST_NAME = 200
_BEFORE_PDF = b"\xef\xbb\xbf \t\r\n\x00"
_WORD_PARTS = (b"[Content_Types].xml", b"word/document.xml")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f]")


def kind_of(content: bytes) -> FileKind | None:
    """The kind, or None for what is none of those that are taken."""
    if content.lstrip(_BEFORE_PDF)[:5] == b"%PDF-":
        return FileKind.PDF
    # The names of a package's parts stand in it as they are, compressed or not.
    if content[:4] == b"PK\x03\x04" and all(part in content for part in _WORD_PARTS):
        return FileKind.DOCX
    return FileKind.TEXT if _is_text(content) else None


def clean_name(name: str, ending: str) -> str:
    """A name for people: no folders, no characters that cannot be seen, short, and never without a letter."""
    last = re.split(r"[/\\]", name)[-1]
    seen = "".join(c for c in " ".join(last.split()) if not is_hidden(c)).strip(" .")
    if len(seen) > LONGEST_NAME:
        stem, dot, ending = seen.rpartition(".")
        kept = f"{dot}{ending}" if dot and len(ending) < 10 else ""
        seen = f"{(stem if kept else seen)[: LONGEST_NAME - len(kept)]}{kept}"
    return seen or f"file{ending}"


def _is_text(content: bytes) -> bool:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return _CONTROLS.search(text) is None
