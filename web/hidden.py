"""Characters that a reader cannot see, or that reorder what is read. Whoever signs has to see that they are there."""

from __future__ import annotations

import re
import unicodedata

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

LOOKS_EMPTY = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0") | frozenset(
    map(chr, range(0x180B, 0x1810))
)
"""Letters and marks that draw nothing, whatever their category says."""

VARIATION = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
KEPT = frozenset("\n\t ")
UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"))
RIGHT_TO_LEFT = frozenset(("R", "AL", "AN"))


def is_hidden(char: str) -> bool:
    """True for controls, format characters (bidi, zero width), unusual spaces and letters that draw nothing."""
    if char in KEPT:
        return False
    return unicodedata.category(char) in UNSEEN or char in LOOKS_EMPTY or char in VARIATION


def show_hidden(text: str) -> SafeString:
    """The text escaped, each hidden character as its code point, right-to-left text kept from reordering its line."""
    characters = set(text)
    hidden = {c for c in characters if is_hidden(c)}
    shown = _with_marks(text, hidden) if hidden else escape(text)
    if any(unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in characters):
        return format_html("<bdi>{}</bdi>", shown)
    return shown


def _with_marks(text: str, hidden: set[str]) -> SafeString:
    pieces = re.split(f"([{re.escape(''.join(sorted(hidden)))}])", text)
    return format_html_join("", "{}", ((_marked(p) if p in hidden else p,) for p in pieces))


def _marked(char: str) -> SafeString:
    point = f"U+{ord(char):04X}"
    name = unicodedata.name(char, "unnamed character")
    return format_html('<span class="hidden-char" title="{} {}">{}</span>', point, name, point)
