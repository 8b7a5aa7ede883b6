"""Reading a submission's body: from bytes to a plain value, with every wrong thing named. Before any job exists."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

import rfc8785
from pydantic import BaseModel, ValidationError

from access.refusals import Unprocessable
from workflows import wording
from workflows.authoring import Problem, Workflow

DEEPEST = 30
LARGEST_SAFE_INTEGER = 2**53
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")


class NotJson(Exception):
    """The body is not JSON at all; the message says where."""


class InvalidSubmission(Unprocessable):
    """The body is not of the workflow's shape: every wrong field with what to do about it. No job is made."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{p.field or 'the whole'}: {p.message}" for p in problems))
        self.problems = problems


def parse(body: bytes) -> Any:
    """A JSON value from a request's body. Raises NotJson, or InvalidSubmission for what JSON can say and we refuse."""
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise NotJson(f"The body is not UTF-8 text: byte {error.start} does not belong there.") from error
    try:
        return json.loads(
            text, parse_float=_fraction, parse_constant=_constant, object_pairs_hook=_without_repeats
        )
    except json.JSONDecodeError as error:
        raise NotJson(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}."
        ) from error
    except RecursionError as error:
        raise NotJson("The body is nested too deep.") from error
    except ValueError as error:
        if isinstance(error, _Repeated):
            raise InvalidSubmission(
                [Problem(wording.place(error.key), "is given twice; give it once")]
            ) from error
        raise NotJson(f"The body is not JSON that can be read: {error}.") from error


def check(workflow: Workflow, value: Any) -> str:
    """The value as canonical JSON text (RFC 8785) if it is of the workflow's shape, or InvalidSubmission."""
    problems = problems_of(value) or misfits(workflow.input, value)
    if problems:
        raise InvalidSubmission(problems)
    return canonical(value)


def problems_of(value: Any) -> list[Problem]:
    """What a parsed value holds that JSON can say and we refuse, whatever it is meant to be."""
    return wording.named(_unfit(value, ()))


def misfits(model: type[BaseModel], value: Any) -> list[Problem]:
    """What is wrong with a value that `problems_of` had no objection to, as this model."""
    try:
        model.model_validate_json(json.dumps(value))
    except ValidationError as error:
        return wording.named(Problem(place, said) for place, said in wording.problems_in(error))
    return []


def canonical(value: Any) -> str:
    """Canonical JSON text (RFC 8785) of a value that `problems_of` had no objection to."""
    return rfc8785.dumps(value).decode()


def digest(text: str) -> str:
    """SHA-256 of an input's canonical text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


class _Fraction(str):
    """A JSON number with a fraction or exponent: kept as its text, to be refused with its place."""

    __slots__ = ()


class _Repeated(ValueError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _NotFinite(str):
    """NaN or an infinity, which JSON has no word for."""

    __slots__ = ()


def _fraction(text: str) -> _Fraction:
    return _Fraction(text)


def _constant(name: str) -> _NotFinite:
    return _NotFinite(name)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Repeated(key)
        found[key] = value
    return found


def _unfit(value: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Lazily: of an input that is wrong in a million places a hundred are looked for."""
    if said := _why_unfit(value, len(path)):
        yield Problem(wording.place(*path), said)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _unfit(key, (*path, key))
            yield from _unfit(inner, (*path, key))
    elif isinstance(value, list):
        for position, inner in enumerate(value):
            yield from _unfit(inner, (*path, position))


def _why_unfit(value: Any, depth: int) -> str:
    if depth > DEEPEST:
        return f"is nested deeper than {DEEPEST} levels"
    if isinstance(value, _NotFinite):
        return f"{value} is no number; leave it out or give a value"
    if isinstance(value, _Fraction):
        return f'{value} is a number with a fraction; send it as text, such as "{value}"'
    if isinstance(value, str):
        found = _CONTROL.search(value)
        return f"holds the control character U+{ord(found.group()):04X}; remove it" if found else ""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= LARGEST_SAFE_INTEGER:
        return "is a whole number too large to be kept exactly; send it as text"
    return ""
