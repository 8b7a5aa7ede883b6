"""What has changed between two descriptions of one workflow, in sentences that name the step and the field."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

TOLD = 6
_LONGEST = 60
_QUIET = frozenset({"properties", "$defs", "items", "anyOf", "oneOf", "allOf"})
"""Words of a schema that a path is easier to read without."""


def between(before: str, after: str) -> list[str]:
    """The differences, at most six and how many more; empty where nothing is known of one of the two."""
    if not before or not after:
        return []
    found = list(_of_definitions(json.loads(before), json.loads(after)))
    more = [f"and {len(found) - TOLD} more"] if len(found) > TOLD else []
    return found[:TOLD] + more


def _of_definitions(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    yield from _at("the input", (), before.get("input"), after.get("input"))
    yield from _of_steps(before, after)
    yield from _at("the settings", (), before.get("settings"), after.get("settings"))
    if before.get("approval") != after.get("approval"):
        yield f"the approval policy was {_say(before.get('approval'))} and is {_say(after.get('approval'))}"
    undone, undoes = set(before.get("compensations", [])), set(after.get("compensations", []))
    yield from (f'step "{name}" can no longer be undone' for name in sorted(undone - undoes))
    yield from (f'step "{name}" can be undone now' for name in sorted(undoes - undone))


def _of_steps(before: dict[str, Any], after: dict[str, Any]) -> Iterator[str]:
    old, new = before.get("steps", {}), after.get("steps", {})
    was, order = before.get("order", []), after.get("order", [])
    yield from (f'step "{name}" is gone' for name in was if name not in new)
    yield from (f'step "{name}" is new' for name in order if name not in old)
    if [n for n in was if n in new] != [n for n in order if n in old]:
        yield f"the order of the steps was {', '.join(was)} and is {', '.join(order)}"
    for name in (n for n in order if n in old):
        yield from _at(f'step "{name}"', (), old[name], new[name])


def _at(what: str, path: tuple[str, ...], before: Any, after: Any) -> Iterator[str]:
    """Differences below one place. A list is compared as a whole: its parts have no names."""
    if before == after:
        return
    place = f"{what}: {'.'.join(path)}" if path else what
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _of_required(what, path, before, after)
        for word in sorted((before.keys() | after.keys()) - {"required"}):
            inner = path if word in _QUIET else (*path, word)
            if word not in after:
                yield f"{what}: {'.'.join(inner) or word} is gone{_of(before[word], 'was ')}"
            elif word not in before:
                yield f"{what}: {'.'.join(inner) or word} is new{_of(after[word])}"
            else:
                yield from _at(what, inner, before[word], after[word])
    else:
        yield f"{place} was {_say(before)} and is {_say(after)}"


def _of_required(
    what: str, path: tuple[str, ...], before: dict[str, Any], after: dict[str, Any]
) -> Iterator[str]:
    """Fields that both have and only one of them needs. (That a field came or went is told by itself.)"""
    old, new = set(before.get("required", [])), set(after.get("required", []))
    both = before.get("properties", {}).keys() & after.get("properties", {}).keys()
    yield from (f"{what}: {'.'.join((*path, name))} is required now" for name in sorted((new - old) & both))
    yield from (
        f"{what}: {'.'.join((*path, name))} is no longer required" for name in sorted((old - new) & both)
    )


def _of(value: Any, word: str = "") -> str:
    """A plain value that came or went; a shape says enough by its name."""
    return "" if isinstance(value, dict | list) else f" ({word}{_say(value)})"


def _say(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
