"""A person's correction of what a stopped item works on: JSON text, checked against the types that the step declares.

An item of a fan-out works on its element: the correction is the next version of it. A single step works on arguments
that follow from the job's input and earlier results, which stay as they are: the correction is an object of those
parameters that it replaces, kept as the item's input, and the engine prefers what is in it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from access.refusals import Unprocessable
from workflows import wording
from workflows.authoring import Problem
from workflows.authoring.steps import Parameter, Step

LONGEST = 1_000_000
"""Characters of one correction."""
DEEPEST = 100
"""Levels, as of a result that is saved."""


class InvalidCorrection(Unprocessable):
    """The correction is not of the step's types: every wrong field with what to do about it. Nothing was changed."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{p.field or 'the whole'}: {p.message}" for p in problems))
        self.problems = problems


class NothingCorrected(Unprocessable):
    """What was given is what the item works on already."""


@dataclass(frozen=True, slots=True)
class Correction:
    """What an item will be given: `value`, the text to keep, and digests over what it replaces and what replaces it."""

    value: str
    fields: tuple[str, ...]
    before: str
    after: str


def of_element(step: Step, *, before: str, given: str) -> Correction:
    """The correction of a fan-out's element. Raises InvalidCorrection, NothingCorrected."""
    text = _checked(step.parameters[0].adapter, given, "")
    if text == _as_given(step.parameters[0].adapter, before):
        raise NothingCorrected("Nothing was changed, so it would stop again.")
    return Correction(text, (step.parameters[0].name,), _digest(before), _digest(text))


def of_arguments(step: Step, *, kept: str, before: Mapping[str, str], given: str) -> Correction:
    """The correction of a single step's arguments, by parameter: `given` is a JSON object of those that change.

    `before` are the texts that those parameters have now; `kept` is the object of an earlier correction, or empty. Raises
    InvalidCorrection, NothingCorrected.
    """
    known = {p.name: p for p in step.parameters}
    texts = _checked_arguments(known, given)
    changed = {n: text for n, text in texts.items() if text != _as_given(known[n].adapter, before[n])}
    if not changed:
        raise NothingCorrected("Nothing was changed, so it would stop again.")
    whole = {**(json.loads(kept) if kept else {}), **{n: json.loads(t) for n, t in changed.items()}}
    names = tuple(sorted(changed))
    return Correction(
        _write(whole),
        names,
        _digest(_write({n: json.loads(before[n]) for n in names})),
        _digest(_write({n: whole[n] for n in names})),
    )


def names_in(given: str) -> list[str]:
    """The parameters that an object of arguments names. Raises InvalidCorrection where it is no object."""
    value = parse(given, "")
    if not isinstance(value, dict):
        raise InvalidCorrection([Problem("", "give a JSON object of the parameters that change")])
    return list(value)


def _checked_arguments(known: Mapping[str, Parameter], given: str) -> dict[str, str]:
    names_in(given)
    value, problems, texts = json.loads(given), [], {}
    for name, inner in value.items():
        if name not in known:
            said = f"is no parameter of this step; it has {', '.join(known)}"
            problems.append(Problem(wording.place(name), said))
            continue
        try:
            texts[name] = _checked(known[name].adapter, json.dumps(inner), name)
        except InvalidCorrection as wrong:
            problems += wrong.problems
    if problems:
        raise InvalidCorrection(wording.named(problems))
    return texts


def _checked(adapter: TypeAdapter[Any], text: str, path: str) -> str:
    """The value as the step will be given it, as canonical text."""
    if problems := wording.named(_unfit(parse(text, path), (path,))):
        raise InvalidCorrection(problems)
    try:
        return _write(adapter.dump_python(adapter.validate_json(text), mode="json"))
    except ValidationError as error:
        found = (Problem(place, said) for place, said in wording.problems_in(error, path))
        raise InvalidCorrection(wording.named(found)) from error
    except ValueError as error:
        raise InvalidCorrection([Problem(path, f"cannot be kept as JSON: {error}")]) from error


def parse(text: str, path: str) -> Any:
    """JSON text as a value, or InvalidCorrection at `path`: repeated keys and NaN are refused."""
    if len(text) > LONGEST:
        raise InvalidCorrection([Problem(path, f"is longer than {LONGEST:,} characters")])
    try:
        return json.loads(text, object_pairs_hook=_without_repeats, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        told = f"is not JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        raise InvalidCorrection([Problem(path, told)]) from error
    except RecursionError as error:
        raise InvalidCorrection([Problem(path, "is nested too deep")]) from error
    except ValueError as error:
        raise InvalidCorrection([Problem(path, str(error))]) from error


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{wording.place(key)} is given twice; give it once")
        found[key] = value
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number; leave it out or give a value")


def _unfit(value: Any, path: tuple[str | int, ...]) -> Iterator[Problem]:
    """Text that the database or a later reader could not take, and what is nested too deep for either."""
    if len(path) > DEEPEST:
        yield Problem(wording.place(*path[:5], "…"), f"is nested deeper than {DEEPEST} levels")
        return
    if isinstance(value, str) and ("\0" in value or any("\ud800" <= c <= "\udfff" for c in value)):
        yield Problem(wording.place(*path), "holds a NUL or half a character pair; remove it")
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _unfit(key, (*path, "")) if isinstance(key, str) else ()
        yield from _unfit(inner, (*path, key))


def _as_given(adapter: TypeAdapter[Any], text: str) -> str:
    """A value that is there already, as the step is given it; one that is not of its type stays as it is."""
    try:
        return _write(adapter.dump_python(adapter.validate_json(text), mode="json"))
    except ValueError:
        return _write(json.loads(text))


def _write(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()
