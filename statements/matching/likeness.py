"""How like the words of a line are to those of an operation, with the words that make it so. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher

_WORD = re.compile(r"[^\W_]+")
_MOST_WORDS = 60
_ALMOST = 0.8
"""From here on a word counts as another one misspelt."""


@dataclass(frozen=True, slots=True)
class Likeness:
    """The share of a name's letters that stand in the line, and which words they are."""

    share: float
    name: str
    words: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What a person can check: the words, and of what."""
        return f"{round(self.share * 100)} % of “{self.name}” is in its words: {', '.join(self.words)}"


NONE = Likeness(0.0, "", ())


class Written:
    """The words of one line; what is nearest to a word is looked for once, however many candidates have it."""

    def __init__(self, line: str) -> None:
        self._words = _words(line)
        self._nearest: dict[str, tuple[str, float]] = {w: (w, 1.0) for w in self._words}

    def likeness(self, names: tuple[str, ...]) -> Likeness:
        """The best of several names of one operation. A word that is misspelt counts by how much of it is right.

        A word with a figure in it is a number of something: without it, or nearly it, the name is another one.
        """
        found = [self._one(name) for name in names if name]
        return max(found, key=lambda one: one.share, default=NONE)

    def _one(self, name: str) -> Likeness:
        wanted = _words(name)
        letters = sum(map(len, wanted))
        if not letters or not self._words:
            return NONE
        weight, kept = 0.0, []
        for word in wanted:
            nearest, share = self._like(word)
            if share < 1 and not word.isalpha():
                return NONE
            if share >= _ALMOST:
                weight += share * len(word)
                kept.append(nearest)
        return Likeness(weight / letters, name, tuple(kept))

    def _like(self, word: str) -> tuple[str, float]:
        if not word.isalpha():
            return self._nearest.get(word, ("", 0.0))
        if word not in self._nearest:
            self._nearest[word] = _nearest(word, self._words)
        return self._nearest[word]


def _nearest(word: str, written: list[str]) -> tuple[str, float]:
    matcher = SequenceMatcher(b=word, autojunk=False)
    best, share = "", 0.0
    for other in written:
        # Lengths and letters alone bound the ratio, and cost little to know.
        if 2 * min(len(word), len(other)) < _ALMOST * (len(word) + len(other)):
            continue
        matcher.set_seq1(other)
        if matcher.quick_ratio() > max(share, _ALMOST - 0.001) and (ratio := matcher.ratio()) > share:
            best, share = other, ratio
    return best, share


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())[:_MOST_WORDS]
