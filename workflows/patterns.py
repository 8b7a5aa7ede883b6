"""A regular expression in words, for people who filled in a form: what most patterns of inputs are made of, no more."""

from __future__ import annotations

import re

_PART = re.compile(
    r"(?P<what>\[(?P<inside>[^\]^][^\]]*)\]|\\[dw]|\\[^A-Za-z0-9]|[^\\\[\](){}|.*+?^$])"
    r"(?P<times>\{(?P<least>\d+)(?P<more>,(?P<most>\d*))?\}|[+*?])?"
)
_NAMES = {
    "A-Z": ("capital letter", "capital letters"),
    "a-z": ("small letter", "small letters"),
    "0-9": ("digit", "digits"),
    r"\d": ("digit", "digits"),
    "-": ("hyphen", "hyphens"),
    "_": ("underscore", "underscores"),
    ".": ("dot", "dots"),
    ":": ("colon", "colons"),
    "/": ("slash", "slashes"),
    " ": ("space", "spaces"),
}
_LETTER = ("letter", "letters")


def in_words(pattern: str) -> str | None:
    """What the whole text has to be, or None where the pattern is not one of a few characters after another."""
    whole = re.fullmatch(r"\^(?P<inner>.*)(\$|\\Z)", pattern, re.DOTALL)
    if whole is None:
        return None
    optional = re.fullmatch(r"\((\?:)?(?P<inner>.*)\)\?", whole["inner"], re.DOTALL)
    parts = _parts((optional or whole)["inner"])
    if not parts:
        return None
    return ", then ".join(parts) + (", or nothing" if optional else "")


def _parts(text: str) -> list[str] | None:
    """Each part in words, or None where something else stands in the text."""
    said, position = [], 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or (one := _part(part)) is None:
            return None
        said.append(one)
        position = part.end()
    return said


def _part(part: re.Match[str]) -> str | None:
    names = _names(part["inside"] or part["what"])
    if names is None:
        return None
    least, most = _bounds(part)
    kinds = _or([name[0 if (least, most) in ((1, 1), (0, 1)) else 1] for name in names])
    match (least, most):
        case (1, 1):
            return f"one {kinds}"
        case (0, 1):
            return f"one {kinds} or none"
        case (0, None):
            return f"any number of {kinds}"
        case (0, _):
            return f"up to {most} {kinds}"
        case (_, None):
            return f"at least {least} {kinds}"
        case _ if least == most:
            return f"{least} {kinds}"
    return f"{least} to {most} {kinds}"


def _bounds(part: re.Match[str]) -> tuple[int, int | None]:
    signs: dict[str | None, tuple[int, int | None]] = {
        None: (1, 1),
        "+": (1, None),
        "*": (0, None),
        "?": (0, 1),
    }
    if part["times"] in signs:
        return signs[part["times"]]
    least = int(part["least"])
    if part["more"] is None:
        return least, least
    return least, int(part["most"]) if part["most"] else None


def _names(inside: str) -> list[tuple[str, str]] | None:
    """The kinds of characters that a class, or a single character, stands for."""
    found = re.findall(r"[A-Za-z0-9]-[A-Za-z0-9]|\\.|.", inside, re.DOTALL)
    names = []
    for one in found:
        if one == r"\w":
            names += [_LETTER, _NAMES["0-9"], _NAMES["_"]]
        elif one in _NAMES or (one[-1] in _NAMES and one[0] == "\\"):
            names.append(_NAMES.get(one) or _NAMES[one[-1]])
        elif len(one) == 3 or (one[0] == "\\" and one[-1].isalpha()):
            return None
        else:
            names.append((f'"{one[-1]}"', f'"{one[-1]}"'))
    capital, small = _NAMES["A-Z"], _NAMES["a-z"]
    if capital in names and small in names:
        names = [_LETTER, *(n for n in names if n not in (capital, small))]
    return list(dict.fromkeys(names))


def _or(words: list[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} or {last}" if others else last
