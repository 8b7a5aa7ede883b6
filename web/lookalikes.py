"""Letters that can be taken for others: words of several scripts, and whole words that only look Latin.

After UTS 39 (mixed scripts, whole-script confusables, mixed numbers), with its table of confusables. One script in its
own right is never remarked on: a Russian, Greek, Hebrew or Japanese name is what it looks like.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from web.hidden import point_of

EAST_ASIAN = ("HAN", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO")
TOGETHER = (
    frozenset(("LATIN", "HAN", "HIRAGANA", "KATAKANA")),
    frozenset(("LATIN", "HAN", "HANGUL")),
    frozenset(("LATIN", "HAN", "BOPOMOFO")),
)
"""Scripts that are written in one word: Japanese, Korean, and Chinese with its sounds."""

NO_SCRIPT = frozenset(("COMMON", "INHERITED", "UNKNOWN"))
ORDINARY = frozenset("ıɩƖʋɣ")
"""Latin letters of living alphabets that the table compares with i, l, u and y."""

SEPARATORS = frozenset("/.:@?#&=%\\")
"""What divides an address into its parts."""


@dataclass(frozen=True, slots=True)
class LookAlike:
    """One letter that can be taken for another."""

    at: int
    char: str
    script: str
    like: str
    word: str

    @property
    def title(self) -> str:
        name = unicodedata.name(self.char, "")
        return f"{point_of(self.char)} {name}, looks like {self.like}"

    @property
    def sentence(self) -> str:
        like = self.like if self.like.isascii() else f"{_script_name(self.like)} {self.like}"
        return f"{self.char} in “{self.word}” is {self.script} ({point_of(self.char)}) and looks like {like}"


def lookalikes_in(text: str) -> list[LookAlike]:
    """Every letter of the text that can be taken for another where it stands, in order."""
    if text.isascii():
        return []
    value = _Value.of(text)
    mixes = len(value.scripts - NO_SCRIPT) > 1 and not any(value.scripts - NO_SCRIPT <= s for s in TOGETHER)
    wanted = {c for c in set(text) if _is_suspect(c) or (mixes and not c.isascii() and c.isalpha())}
    if not wanted:
        return []
    suspects = "".join(sorted(wanted))
    found = [one for word in _words(text, suspects) for one in _in_word(word, value)]
    found += [
        LookAlike(m.start(), m[0], "no letter", _like(m[0], "COMMON"), _around(text, m.start()))
        for m in re.finditer(f"[{re.escape(suspects)}]", text)
        if _separator(m[0])
    ]
    return sorted(found, key=lambda one: one.at)


@dataclass(frozen=True, slots=True)
class _Value:
    """What the whole text is written in: `telling` are the scripts that have a letter which cannot be mistaken."""

    scripts: frozenset[str]
    telling: frozenset[str]

    @classmethod
    def of(cls, text: str) -> _Value:
        letters = {c for c in set(text) if c.isalpha()}
        return cls(
            frozenset(script_of(c) for c in letters),
            frozenset(script_of(c) for c in letters if not _latin_like(c)),
        )


def _words(text: str, suspects: str) -> Iterator[re.Match[str]]:
    suspicious = re.compile(f"[{re.escape(suspects)}]")
    bare = "".join(" " if unicodedata.category(c) in ("Zs", "Cc") else c for c in text)
    for word in _WORD_WITH_MARKS.finditer(bare):
        if suspicious.search(word[0]):
            yield word


# Marks and unseen characters stand inside a word: neither may hide that its letters are of two scripts.
_WORD_WITH_MARKS = re.compile(
    r"[^\W_](?:[^\W_]|[\u0300-\u036f\u00ad\u034f\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufe00-\ufe0f])*"
)


def _in_word(word: re.Match[str], value: _Value) -> list[LookAlike]:
    text, start = word[0], word.start()
    by_script: dict[str, list[int]] = defaultdict(list)
    for at, char in enumerate(text):
        if char.isalpha() and (script := script_of(char)) not in NO_SCRIPT:
            by_script[script].append(at)
    found: dict[int, str] = {}
    scripts = frozenset(by_script)
    if len(scripts) > 1 and not any(scripts <= one for one in TOGETHER):
        found |= _mixed(text, by_script)
    elif len(scripts) == 1 and "LATIN" not in scripts and _only_looks_latin(text, next(iter(scripts)), value):
        found |= {at: _latin_like(text[at]) for at in by_script[next(iter(scripts))]}
    found |= _odd_latin(text, value) | _odd_digits(text, value)
    shown = _visible(text)
    return [
        LookAlike(start + at, text[at], _script_name(text[at]), like, shown) for at, like in found.items()
    ]


def _mixed(text: str, by_script: dict[str, list[int]]) -> dict[int, str]:
    """Of the rarer script the letters that look like those of another in the word; the more frequent one's if none do."""
    for script, places in sorted(by_script.items(), key=lambda item: (len(item[1]), item[0] == "LATIN")):
        others = [s for s in by_script if s != script]
        like = {at: next((x for s in others if (x := _like(text[at], s))), "") for at in places}
        if found := {at: x for at, x in like.items() if x}:
            return found
    return {}


def _only_looks_latin(text: str, script: str, value: _Value) -> bool:
    letters = [c for c in text if c.isalpha()]
    if not all(_latin_like(c) for c in letters) or unicodedata.bidirectional(letters[0]) != "L":
        return False
    if len(letters) == 1 and letters[0].islower():
        return False  # α, ν and their like are signs of their own
    return script not in value.telling or "LATIN" in value.scripts


def _odd_latin(text: str, value: _Value) -> dict[int, str]:
    """Mathematical, full-width and phonetic forms of plain letters."""
    east = any(s in value.scripts for s in EAST_ASIAN)
    plain = any(c.isascii() and c.isalnum() for c in text)
    found = {}
    for at, char in enumerate(text):
        if char.isascii() or char in ORDINARY:
            continue
        form = _plain_form(char)
        always = "\U0001d400" <= char <= "\U0001d7ff" or char == "\u212a"
        if form and (always or (not east and (plain or unicodedata.east_asian_width(char) == "F"))):
            found[at] = form
        elif plain and not form and script_of(char) == "LATIN" and (like := _latin_like(char)):
            found[at] = like
    return found


def _odd_digits(text: str, value: _Value) -> dict[int, str]:
    """Digits of another writing among plain ones, or where nothing else is written so."""
    digits = {at: c for at, c in enumerate(text) if unicodedata.category(c) == "Nd" and not _plain_form(c)}
    systems = {ord(c) - unicodedata.digit(c) for c in digits.values()}
    foreign = {at: c for at, c in digits.items() if not c.isascii()}
    alone = all(s in NO_SCRIPT or s == "LATIN" for s in value.scripts)
    if not foreign or (len(systems) < 2 and not alone):
        return {}
    return {at: _like(c, "COMMON") or f"a digit; it is {unicodedata.digit(c)}" for at, c in foreign.items()}


def _separator(char: str) -> str:
    if char.isascii() or script_of(char) not in NO_SCRIPT or unicodedata.east_asian_width(char) in "WF":
        return ""
    like = _like(char, "COMMON")
    return like if like in SEPARATORS else ""


@lru_cache(maxsize=8192)
def _is_suspect(char: str) -> bool:
    if char.isascii():
        return False
    if _separator(char) or _plain_form(char) or unicodedata.category(char) == "Nd":
        return True
    return char.isalpha() and char in _table()


@lru_cache(maxsize=8192)
def script_of(char: str) -> str:
    """The script of a character as ISO 15924 names it in capitals: "LATIN", "CYRILLIC", "COMMON"."""
    from confusable_homoglyphs import categories

    return str(categories.alias(char)).upper()


def _script_name(char: str) -> str:
    script = script_of(char)
    if script in NO_SCRIPT:
        return "a mathematical letter" if char.isalpha() else "no plain digit"
    return script.replace("_", " ").title()


@lru_cache(maxsize=8192)
def _latin_like(char: str) -> str:
    """The plain Latin letter that it looks like, or nothing."""
    return next((c for c in _table().get(char, ()) if c.isascii() and c.isalpha()), "")


@lru_cache(maxsize=8192)
def _like(char: str, script: str) -> str:
    """What it looks like in another script, plain characters first, or nothing."""
    among = [c for c in _table().get(char, ()) if script_of(c) == script]
    return min(among, key=lambda c: (not c.isascii(), c.isalpha() != char.isalpha(), c), default="")


@lru_cache(maxsize=8192)
def _plain_form(char: str) -> str:
    """The plain letter or digit of which it is a form that can be taken for it, or nothing."""
    if char.isascii() or char == "\u2139":
        return ""
    form = unicodedata.normalize("NFKC", char)
    if len(form) != 1 or not (form.isascii() and form.isalnum()):
        return ""
    kind = unicodedata.decomposition(char).split(" ")[0]
    if kind == "<font>" and not "\U0001d400" <= char <= "\U0001d7ff":
        return ""
    return "" if kind in ("<super>", "<sub>", "<circle>", "<square>", "<noBreak>") else form


@cache
def _table() -> dict[str, tuple[str, ...]]:
    """The confusables of UTS 39, of single characters. Read at the first text that is not plain: 40 ms."""
    from confusable_homoglyphs.confusables import confusables_data

    return {
        char: tuple(h["c"] for h in alike if len(h["c"]) == 1)
        for char, alike in confusables_data.items()
        if len(char) == 1
    }


def _visible(word: str) -> str:
    shown = "".join(c for c in word if unicodedata.category(c) not in ("Cf", "Cc"))
    return shown if len(shown) <= 40 else f"{shown[:39]}…"


def _around(text: str, at: int) -> str:
    before, after = text[:at].split(), text[at:].split()
    joined = (before[-1] if before and not text[at - 1].isspace() else "") + (after[0] if after else "")
    return _visible(joined)
