"""Text of others made ready to be read: what cannot be seen is shown, what can be mistaken is marked and explained.

`shown` is the text, escaped; `warnings` are the sentences that stand above a value on which somebody decides.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from web.hidden import hidden_at, name_of, point_of, reads_from_the_right
from web.lookalikes import LookAlike, lookalikes_in

NAMED = 4
REMEMBERED = 2000
"""Characters up to which a text is looked at once for all the places where it is shown."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What is noteworthy in a text: where the unseen characters are, and which letters look like others."""

    hidden: tuple[int, ...]
    alike: tuple[LookAlike, ...]


NOTHING = Sight((), ())


def sight_of(text: str) -> Sight:
    """What a reader of this text has to be told."""
    if text.isascii() and text.isprintable():
        return NOTHING
    return _remembered(text) if len(text) <= REMEMBERED else _look(text)


def shown(text: str, *, exact: bool = False, mark: tuple[int, int] = (0, 0)) -> SafeString:
    """The text escaped, each unseen character as its code point, right-to-left text kept from reordering its line.

    `exact`: blanks that a page would swallow are code points too. `mark`: from where to where it is highlighted.
    """
    sight, blanks = sight_of(text), blanks_at(text) if exact else []
    plain = not blanks and sight == NOTHING and mark[0] == mark[1]
    html = escape(text) if plain else _marked(text, sight, blanks, mark)
    return format_html("<bdi>{}</bdi>", html) if reads_from_the_right(text) else html


def warnings(text: str) -> list[str]:
    """What to say above the text: of the characters that cannot be seen, and of the letters that look like others."""
    sight = sight_of(text)
    said = []
    if sight.hidden:
        names = Counter(name_of(text[at]) for at in sight.hidden)
        one = len(sight.hidden) == 1
        what = "1 character cannot be seen" if one else f"{len(sight.hidden):,} characters cannot be seen"
        said.append(f"{what}: {_listed([n if c == 1 else f'{n}, {c:,} times' for n, c in names.items()])}.")
    if sight.alike:
        sentences = list(dict.fromkeys(one.sentence for one in sight.alike))
        said.append(f"Look-alike letters: {_listed(sentences)}.")
    return said


def blanks_at(text: str) -> list[int]:
    """Where a page would swallow a blank: at the beginning, at the end, behind another, and tabs."""
    if text.isascii() and text.isprintable() and "  " not in text and text == text.strip():
        return []
    inside = len(text) - len(text.lstrip(" ")), len(text.rstrip(" "))
    return [
        at
        for at, char in enumerate(text)
        if char == "\t" or (char == " " and (not inside[0] <= at < inside[1] or text[at - 1] == " "))
    ]


@lru_cache(maxsize=2048)
def _remembered(text: str) -> Sight:
    return _look(text)


def _look(text: str) -> Sight:
    return Sight(tuple(hidden_at(text)), tuple(lookalikes_in(text)))


def _marked(text: str, sight: Sight, blanks: list[int], mark: tuple[int, int]) -> SafeString:
    signs = {one.at: _alike(one) for one in sight.alike}
    signs |= {at: _hidden(text[at]) for at in (*sight.hidden, *blanks)}
    first, last = mark
    parts = [_signed(text, signs, a, b) for a, b in ((0, first), (first, last), (last, len(text)))]
    return format_html("{}<mark>{}</mark>{}", *parts) if first < last else format_html("{}{}{}", *parts)


def _signed(text: str, signs: dict[int, SafeString], start: int, end: int) -> SafeString:
    pieces: list[tuple[SafeString]] = []
    for at in sorted(at for at in signs if start <= at < end):
        pieces += [(escape(text[start:at]),), (signs[at],)]
        start = at + 1
    return format_html_join("", "{}", [*pieces, (escape(text[start:end]),)])


def _hidden(char: str) -> SafeString:
    return format_html('<span class="hidden-char" title="{}">{}</span>', name_of(char), point_of(char))


def _alike(one: LookAlike) -> SafeString:
    return format_html('<span class="look-alike" title="{}">{}</span>', one.title, one.char)


def _listed(found: list[str]) -> str:
    more = len(found) - NAMED
    return "; ".join(found[:NAMED]) + (f"; and {more:,} more" if more > 0 else "")
