"""A rule set as TOML that people edit, and what is wrong with such a text, line by line. Pure.

four_eyes = true
expires_after_minutes = 1440

[[levels]]
group = "controllers"
quorum = 2
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import time
from typing import Any

from pydantic import BaseModel, ValidationError

from approvals.ruleset import RuleSet
from workflows.wording import problems_in

LONGEST = 100_000
LONGEST_LINE = 1000
"""What TOML takes to read grows with the square of a line: keys have parts, and each is looked up from the first."""
MOST_FAULTS = 20
ROWS = ("levels", "limits", "sums", "reminders", "escalation")
_AT = re.compile(r"\s*\(at (?:line (\d+), column \d+|end of document)\)$")
_HEADER = re.compile(r"\s*(\[\[?)\s*([A-Za-z_][\w.-]*)\s*\]\]?")
_KEY = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([A-Za-z0-9_-]+))\s*=""")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `place`: the parts of its name; `line`: where it stands in a text, 0 for nowhere."""

    place: tuple[str | int, ...]
    sentence: str
    line: int = 0

    @property
    def words(self) -> str:
        """The fault as one sentence, with its line where there is one."""
        named = ".".join(str(p + 1) if isinstance(p, int) else p for p in self.place)
        between = " " if self.sentence.startswith(("is ", "has ")) else ": "
        said = f"{named}{between}{self.sentence}" if named else self.sentence
        if self.line:
            return f"Line {self.line}: {said}."
        return f"{said}." if named else f"{said[:1].upper()}{said[1:]}."


def read(text: str) -> RuleSet | list[Fault]:
    """The rule set that a text says, or what is wrong with it."""
    value = parse(text, "a policy")
    if not isinstance(value, dict):
        return value
    found = faults_in(value)
    return found if isinstance(found, RuleSet) else placed(found, text)


def parse(text: str, what: str) -> dict[str, Any] | list[Fault]:
    """The values of a text that people edit, or why it is no TOML; `what` it is goes into the sentence."""
    if len(text) > LONGEST:
        return [Fault((), f"{what} has at most {LONGEST:,} characters")]
    too_long = (n for n, line in enumerate(text.split("\n"), start=1) if len(line) > LONGEST_LINE)
    if number := next(too_long, 0):
        return [Fault((), f"a line has at most {LONGEST_LINE:,} characters", number)]
    try:
        # Figures stay the text that was typed: as a float an amount would be lost already.
        return tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as broken:
        at = _AT.search(str(broken))
        line = int(at[1]) if at and at[1] else text.count("\n") + 1
        sentence = _AT.sub("", str(broken))
        return [Fault((), f"this is not TOML: {sentence[:1].lower()}{sentence[1:]}", line)]
    except RecursionError:
        return [Fault((), "this is not TOML that can be read: it is nested too deep")]


def placed(found: Iterable[Fault], text: str) -> list[Fault]:
    """The faults, each with the line of the text that it is about."""
    lines = _lines(text)
    return [Fault(f.place, f.sentence, _line_of(f.place, lines)) for f in found]


def faults_in(value: Mapping[str, Any]) -> RuleSet | list[Fault]:
    """The rule set that plain values say, or what is wrong with them, each with a sentence."""
    try:
        return RuleSet.model_validate(value)
    except ValidationError as invalid:
        return faults_of(invalid)


def faults_of(invalid: ValidationError) -> list[Fault]:
    """What pydantic refuses, each with its place and a sentence."""
    said = [sentence for _, sentence in problems_in(invalid)]
    places = [e["loc"] for e in invalid.errors(include_url=False, include_input=False, include_context=False)]
    pairs = list(zip(places, said, strict=False))[:MOST_FAULTS]
    return [Fault(tuple(p for p in place if p != "[key]"), sentence) for place, sentence in pairs]


def write(rules: RuleSet) -> str:
    """The text of a rule set; reading it gives the same one. What has no value is left out."""
    value = rules.model_dump(mode="python")
    flat = {k: v for k, v in value.items() if not isinstance(v, tuple | dict) and v is not None}
    if rules.expires_at is not None:
        flat.pop("expires_after_minutes")
    blocks = ["\n".join(f"{k} = {_value(v)}" for k, v in flat.items())]
    if rules.reauthenticate_above is not None:
        blocks.append("\n".join(["[reauthenticate_above]", *_fields(rules.reauthenticate_above)]))
    if rules.rates:
        lines = [f"{_value(pair)} = {_value(f'{rate:f}')}" for pair, rate in sorted(rules.rates.items())]
        blocks.append("\n".join(["[rates]", *lines]))
    for name in ROWS:
        blocks += ["\n".join([f"[[{name}]]", *_fields(row)]) for row in getattr(rules, name)]
    return "\n\n".join(blocks) + "\n"


def _fields(row: BaseModel) -> Iterator[str]:
    """A row's fields without those that say nothing."""
    value = row.model_dump(mode="python")
    for name, inner in value.items():
        if inner is not None and inner is not False and inner != "":
            yield f"{name} = {_value(inner)}"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, time):
        return value.isoformat()
    # A JSON text is a TOML text too, once what JSON may leave as it is (DEL) is escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(text: str) -> dict[tuple[str | int, ...], int]:
    """Where each table and each key begins. Values over several lines are found by their key."""
    found: dict[tuple[str | int, ...], int] = {}
    here: tuple[str | int, ...] = ()
    rows: Counter[tuple[str | int, ...]] = Counter()
    for number, line in enumerate(text.split("\n"), start=1):
        if header := _HEADER.match(line):
            here = tuple(header[2].split("."))
            if header[1] == "[[":
                found.setdefault(here, number)
                rows[here] += 1
                here = (*here, rows[here] - 1)
            found.setdefault(here, number)
        elif key := _KEY.match(line):
            found.setdefault((*here, key[1] or key[2] or key[3]), number)
    return found


def _line_of(place: tuple[str | int, ...], lines: Mapping[tuple[str | int, ...], int]) -> int:
    return next((lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in lines), 0)
