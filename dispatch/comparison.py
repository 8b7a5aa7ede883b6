"""Whether what a receiver says it did is what was approved."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from dispatch.forms import is_form, pairs, values
from dispatch.paths import at_path, word_at
from dispatch.texts import kept


class Unreadable(Exception):
    """The answer's body is not the JSON object that the contract promises."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that is not what was approved. `told` is None where the receiver does not say."""

    field: str
    approved: str
    told: str | None


class Places(Protocol):
    """Where what a receiver says repeats what was sent: an action's answers and look-ups, or its callbacks."""

    @property
    def receipt_path(self) -> str: ...
    @property
    def record_path(self) -> str: ...
    @property
    def echo_path(self) -> str: ...


def read_json(body: bytes) -> dict[str, Any]:
    """The answer as one JSON object, or Unreadable. A page, a part or nothing at all is not an answer, nor is what two readers
    may read differently: a name that stands there twice."""
    if not body.strip():
        raise Unreadable("the answer has no body")
    try:
        content = json.loads(
            body.decode("utf-8"), parse_float=str, parse_constant=_no_number, object_pairs_hook=_once_each
        )
    except (UnicodeDecodeError, ValueError, RecursionError):
        raise Unreadable("the answer is not readable JSON") from None
    if not isinstance(content, dict):
        raise Unreadable("the answer is not a JSON object")
    return content


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise Unreadable(f"the answer says {json.dumps(name[:60])} twice")
        content[name] = value
    return content


def _no_number(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def receipt_of(places: Places, content: dict[str, Any]) -> str:
    """The receiver's own id of what it did, or ""."""
    return receipt_at(content, places.receipt_path)


def receipt_at(content: dict[str, Any], path: str) -> str:
    """An id at a place of what a receiver said, or ""."""
    return "" if isinstance(at_path(content, path), bool) else word_at(content, path)[:200]


def differences(
    places: Places, *, sent: bytes, record: str, content: dict[str, Any], fields: Collection[str] = ()
) -> list[Difference]:
    """Every sent value, or those of `fields`, that the answer does not repeat as it was sent; empty where all agree."""
    found: list[Difference] = []
    if places.record_path and at_path(content, places.record_path) != record:
        found.append(Difference("record", record, _text(at_path(content, places.record_path))))
    if places.echo_path:
        echoed = content if places.echo_path == "." else at_path(content, places.echo_path)
        told = echoed if isinstance(echoed, dict) else {}
        approved = approved_values(sent)
        named = {name: approved[name] for name in fields if name in approved} if fields else approved
        found += _unequal("", named, dict(pairs("", told)) if is_form(sent) else told)
    return found


def differing(compared: Mapping[str, str], *, sent: bytes, content: dict[str, Any]) -> list[Difference]:
    """Likewise for single values: a place of what is told to the place of the sent body that it has to equal."""
    approved, found = approved_values(sent), []
    for said, place in compared.items():
        value, told = at_path(approved, place), at_path(content, said)
        told = dict(pairs("value", told)).get("value") if is_form(sent) and told is not None else told
        if type(value) is not type(told) or value != told or value is None:
            found.append(Difference(place, _text(value) or "", _text(told)))
    return found


def approved_values(sent: bytes) -> Any:
    """The values of an approved body, fractions as they stand there; of a form each field with its text."""
    if is_form(sent):
        return values(sent)
    return json.loads(sent, parse_float=str) if sent else {}


def _unequal(prefix: str, approved: dict[str, Any], told: dict[str, Any]) -> list[Difference]:
    found: list[Difference] = []
    for name, value in approved.items():
        other = told.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            found += _unequal(f"{prefix}{name}.", value, other)
        elif type(value) is not type(other) or value != other:
            found.append(Difference(f"{prefix}{name}", str(_text(value)), _text(other)))
    return found


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return kept(value if isinstance(value, str) else json.dumps(value, sort_keys=True, ensure_ascii=False))
