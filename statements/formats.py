"""What kind of statement a file is, told from its first bytes, never from its name."""

from __future__ import annotations

import re

from statements.decoding import OTHER, Decoding
from statements.models import Format

_XML = re.compile(r"\s*(?:<\?xml|<!--|<!DOCTYPE|<(?:\w+:)?Document)")
_MT940 = re.compile(r"\s*(?:\{1:|.{0,400}?^:20:)", re.DOTALL | re.MULTILINE)


def format_of(head: bytes, encoding: str) -> Format:
    """The format. Whatever is none of the others is taken for a table, whose mapping then says how it is read."""
    text = head.decode(encoding or "windows-1252", errors="replace").lstrip("\ufeff")
    if _XML.match(text):
        return Format.CAMT053
    if _MT940.match(text) and ":60" in text:
        return Format.MT940
    return Format.CSV


def evidence_of(form: Format, decoding: Decoding) -> str:
    """How its bytes become text, and what showed it, for people."""
    if form is Format.CAMT053:
        return "XML says itself how its letters are written."
    if form is Format.MT940 and decoding.encoding == OTHER:
        return decoding.evidence.replace("so the mapping says what it is", "so it is read as Windows-1252")
    return decoding.evidence
