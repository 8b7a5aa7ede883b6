"""Characters that a reader cannot see, or that reorder what is read. Whoever signs has to see that they are there.

What ordinary writing needs stays as it is: the joiners inside emoji and of scripts that cannot do without them, the
selectors that colour an emoji, accents written apart from their letter, the wide space of Chinese and Japanese text.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

LOOKS_BLANK = frozenset("\u115f\u1160\u2800\u3164\uffa0")
"""Letters and signs that look like a blank, and are none."""

LOOKS_EMPTY = LOOKS_BLANK | frozenset("\u034f\u17b4\u17b5") | frozenset(map(chr, range(0x180B, 0x1810)))
"""Letters and marks that draw nothing, whatever their category says."""

DRAWN = frozenset(
    map(chr, (*range(0x0600, 0x0606), 0x06DD, 0x070F, 0x0890, 0x0891, 0x08E2, 0x110BD, 0x110CD))
)
"""Format characters that are drawn: the number and year signs of Arabic, Syriac and Kaithi."""

VARIATION = frozenset(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
KEPT = frozenset("\n\t ")
UNSEEN = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"))
RIGHT_TO_LEFT = frozenset(("R", "AL", "AN"))
MOST_MARKS = 4
"""Accents on one letter (UTS 39, 5.4). More of them run over the lines above and below."""

ZWNJ, ZWJ, TEXT_STYLE, EMOJI_STYLE, WIDE_SPACE = "\u200c", "\u200d", "\ufe0e", "\ufe0f", "\u3000"
FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(c)) for c in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)
"""England, Scotland, Wales: the sequences of tags that are emoji. All other tags spell out something unseen."""

_KEYCAPS = frozenset("0123456789#*")
_OLD_EMOJI = frozenset("\u203c\u2049\u2139\u3030\u303d\u3297\u3299\u00a9\u00ae")
_JOINED_FIRST = frozenset("\u26f9\u26d3\u2764")
_JOINED_SECOND = frozenset("\u2640\u2642\u2695\u2696\u2708\u2620\u2764\u27a1\u2194\u2195\u2b1b\u26a7")
_JOINS_ONE_SIDE = frozenset(
    map(chr, (
        *range(0x0621, 0x0626), 0x0627, 0x0629, *range(0x062F, 0x0633), 0x0648, *range(0x0671, 0x0674),
        *range(0x0675, 0x0678), *range(0x0688, 0x069A), 0x06C0, *range(0x06C3, 0x06CC), 0x06CD, 0x06CF,
        0x06D2, 0x06D3, 0x06D5, 0x06EE, 0x06EF,
    ))
)  # fmt: skip
"""Arabic letters that never join the next one, so that a non-joiner after them draws nothing."""


def is_hidden(char: str) -> bool:
    """True for controls, format characters (bidi, zero width), unusual spaces and letters that draw nothing."""
    if char in KEPT or char in DRAWN:
        return False
    if char in LOOKS_EMPTY or char in VARIATION:
        return True
    category = unicodedata.category(char)
    return category in UNSEEN and not (category == "Cn" and _is_to_come(char))


def hidden_at(text: str) -> list[int]:
    """Where in the text the characters stand that a reader cannot see, in order."""
    if text.isascii() and text.isprintable():
        return []
    found = [
        m.start() for m in _any_of(text, is_hidden).finditer(text) if not _belongs(text, m.start(), m[0])
    ]
    stray = [at for m in _stacks(text) for at in _stray_marks(text, *m)]
    return sorted({*found, *stray})


def name_of(char: str) -> str:
    """What Unicode calls it: "U+202E RIGHT-TO-LEFT OVERRIDE"."""
    return f"{point_of(char)} {unicodedata.name(char, _nameless(char))}"


def point_of(char: str) -> str:
    return f"U+{ord(char):04X}"


def reads_from_the_right(text: str) -> bool:
    """Whether the text holds right-to-left letters, which reorder what stands beside them unless kept apart."""
    return not text.isascii() and any(unicodedata.bidirectional(c) in RIGHT_TO_LEFT for c in set(text))


def _any_of(text: str, wanted: object) -> re.Pattern[str]:
    assert callable(wanted)
    return _class("".join(sorted(c for c in set(text) if wanted(c))))


@lru_cache(maxsize=256)
def _class(characters: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(characters)}]" if characters else r"(?!)")


def _belongs(text: str, at: int, char: str) -> bool:
    before, after = text[max(at - 1, 0) : at], text[at + 1 : at + 2]
    if char in (ZWJ, ZWNJ) and before and unicodedata.combining(before) == 9:
        return True  # after a virama it chooses the form of the letter (UAX 31, A2 and B)
    if char == ZWJ:
        return _joins_emoji(text, at)
    if char == ZWNJ:
        return _is_arabic(before) and before not in _JOINS_ONE_SIDE and _is_arabic(after)
    if char in (EMOJI_STYLE, TEXT_STYLE):
        return _is_picture(before) or (before in _KEYCAPS and before != "" and after == "\u20e3")
    if "\U000e0020" <= char <= "\U000e007f":
        start = text.rfind("\U0001f3f4", 0, at)
        return start >= 0 and text.startswith(FLAGS, start) and at < start + 7
    if char == WIDE_SPACE:
        return any(c and unicodedata.east_asian_width(c) in "WF" for c in (before, after))
    if "\u180b" <= char <= "\u180f":
        return "\u1820" <= before <= "\u18aa"
    return char == "\u2800" and any("\u2801" <= c <= "\u28ff" for c in (before, after))


def _joins_emoji(text: str, at: int) -> bool:
    start = at - 1
    while start > 0 and (text[start] == EMOJI_STYLE or "\U0001f3fb" <= text[start] <= "\U0001f3ff"):
        start -= 1
    first, second = text[max(start, 0) : start + 1], text[at + 1 : at + 2]
    return (_is_new_emoji(first) or first in _JOINED_FIRST) and (
        _is_new_emoji(second) or second in _JOINED_SECOND
    )


def _is_new_emoji(char: str) -> bool:
    return "\U0001f300" <= char <= "\U0001faff"


def _is_picture(char: str) -> bool:
    if not char:
        return False
    if char in _OLD_EMOJI or "\U0001f000" <= char <= "\U0001faff":
        return True
    return "\u2190" <= char <= "\u2bff" and unicodedata.category(char) in ("So", "Sm")


def _is_arabic(char: str) -> bool:
    return char != "" and unicodedata.category(char) in ("Lo", "Mn") and unicodedata.bidirectional(char) in (
        "AL", "NSM",
    )  # fmt: skip


def _is_to_come(char: str) -> bool:
    """Unassigned here, and reserved for emoji and ideographs: a newer Unicode than ours draws them."""
    point = ord(char)
    return 0x1F000 <= point <= 0x1FAFF or (0x20000 <= point <= 0x3FFFD and point & 0xFFFE != 0xFFFE)


def _nameless(char: str) -> str:
    names = {"Cc": "CONTROL", "Co": "PRIVATE USE", "Cn": "UNASSIGNED", "Cs": "HALF A CHARACTER"}
    return names.get(unicodedata.category(char), "WITHOUT A NAME")


def _stacks(text: str) -> list[tuple[int, int]]:
    marks = _any_of(text, _is_mark).pattern
    return [] if marks == "(?!)" else [m.span() for m in re.finditer(f"{marks}+", text)]


@lru_cache(maxsize=4096)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me") and char not in VARIATION


def _stray_marks(text: str, start: int, end: int) -> range:
    """Marks that stand on no letter, or as a pile on one."""
    if start == 0 or text[start - 1].isspace():
        return range(start, end)
    return range(min(start + MOST_MARKS, end), end)
