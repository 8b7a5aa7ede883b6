"""What pydantic finds wrong with an input, said to the person who gave it: what it has to be, in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pydantic import ValidationError

from workflows import patterns
from workflows.authoring.errors import Problem

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_SAID = {
    "missing": "is missing; give it",
    "extra_forbidden": "is not known here; leave it out",
    "string_type": "has to be text",
    "bool_type": "has to be true or false",
    "bool_parsing": "has to be true or false",
    "int_type": "has to be a whole number",
    "int_parsing": "has to be a whole number",
    "int_from_float": "has to be a whole number",
    "float_type": "has to be a number",
    "float_parsing": "has to be a number",
    "decimal_type": "has to be a number",
    "decimal_parsing": "has to be a number",
    "list_type": "has to be a list",
    "dict_type": "has to be an object with fields of its own",
    "model_type": "has to be an object with fields of its own",
    "greater_than": "has to be more than {gt}",
    "greater_than_equal": "has to be at least {ge}",
    "less_than": "has to be less than {lt}",
    "less_than_equal": "has to be at most {le}",
    "string_too_short": "is too short; give at least {min_length} characters",
    "string_too_long": "is too long; give at most {max_length} characters",
    "too_short": "has too few entries; give at least {min_length}",
    "too_long": "has too many entries; give at most {max_length}",
    "enum": "has to be {expected}",
    "literal_error": "has to be {expected}",
    "date_type": "has to be a date, such as 2026-03-31",
    "date_parsing": "has to be a date, such as 2026-03-31",
    "date_from_datetime_parsing": "has to be a date, such as 2026-03-31",
    "datetime_type": "has to be a date and a time, such as 2026-03-31T14:30:00Z",
    "datetime_parsing": "has to be a date and a time, such as 2026-03-31T14:30:00Z",
    "datetime_from_date_parsing": "has to be a date and a time, such as 2026-03-31T14:30:00Z",
}


MOST_NAMED = 100
"""Problems of one input that are named: an answer must not become a thousand times as long as what it answers."""
MOST_LOOKED_AT = 10_000
LONGEST_PART = 100


def place(*parts: object) -> str:
    """Where something stands, such as lines.3.amount; a key of somebody else's is shown by its beginning, and so that
    it can be written down."""
    shown = (str(part).encode("utf-8", "backslashreplace").decode() for part in parts)
    return ".".join(s if len(s) <= LONGEST_PART else f"{s[:LONGEST_PART]}…" for s in shown if s)


def named(problems: Iterable[Problem]) -> list[Problem]:
    """The first problems, and one that says so where there are more."""
    found = list(islice(problems, MOST_NAMED + 1))
    if len(found) <= MOST_NAMED:
        return found
    return [*found[:MOST_NAMED], Problem("", f"more is wrong than these {MOST_NAMED}; begin with them")]


def problems_in(error: ValidationError, path: str = "") -> Iterator[tuple[str, str]]:
    """Each wrong field, below `path`, with what to do about it."""
    if error.error_count() > MOST_LOOKED_AT:
        yield path, f"has {error.error_count():,} wrong fields, too many to be named"
        return
    for found in error.errors(include_url=False, include_input=False):
        yield place(path, *found["loc"]), _said(found)


def _said(found: ErrorDetails) -> str:
    kind, context = found["type"], found.get("ctx", {})
    if kind == "string_pattern_mismatch":
        words = patterns.in_words(context["pattern"])
        return (
            f"has to be {words}" if words else f"is not of the form that is asked for: {context['pattern']}"
        )
    if kind == "string_too_short" and context["min_length"] == 1:
        return "is empty; fill it in"
    if kind in _SAID:
        return _SAID[kind].format(**context)
    # Whoever wrote the workflow chose these words; pydantic puts its own before them.
    return found["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
