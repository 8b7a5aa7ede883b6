"""A contract as TOML that people edit, and what is wrong with such a text, line by line. Pure.

title = "Ledger"
key_location = "header"
key_name = "Idempotency-Key"

[actions.put]
method = "PUT"
path = "/records/{record}"
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from approvals.policy_text import LONGEST as LONGEST
from approvals.policy_text import Fault, faults_of, parse, placed
from dispatch.contracts import Contract

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_SINGLE = ("lookup", "callbacks", "statement_feed", "timeouts", "signing", "oauth", "tls")
_TABLES = ("actions", *_SINGLE)


@dataclass(frozen=True, slots=True)
class Change:
    """One field or table of a contract that differs, as its text has it. Of a table only what is not in both; `same`:
    how many lines are."""

    rule: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    same: int


def read(text: str) -> Contract | list[Fault]:
    """The contract that a text says, or what is wrong with it."""
    value = parse(text, "a contract")
    if not isinstance(value, dict):
        return value
    try:
        return Contract.model_validate(value)
    except ValidationError as invalid:
        return placed(faults_of(invalid), text)


def write(contract: Contract) -> str:
    """The text of a contract; reading it gives the same one. What is left at its default is left out."""
    value = _kept(contract)
    flat = [f"{name} = {_value(inner)}" for name, inner in value.items() if name not in _TABLES]
    blocks = ["\n".join(flat)]
    for name in _SINGLE:
        if name in value:
            blocks.append("\n".join([f"[{name}]", *_lines(value[name])]))
    for name, action in value["actions"].items():
        blocks.append("\n".join([f"[actions.{_key(name)}]", *_lines(action)]))
    return "\n\n".join(blocks) + "\n"


def changes(before: Contract, after: Contract) -> list[Change]:
    """Every field that differs, by its place; an action or a table that is new or gone is one. Empty where both agree."""
    was, now = _places(before), _places(after)
    found = []
    for place in sorted({*was, *now}):
        old, new = _shown(was, place), _shown(now, place)
        if old != new:
            both = set(old) & set(new)
            found.append(
                Change(
                    place,
                    tuple(line for line in old if line not in both),
                    tuple(line for line in new if line not in both),
                    len(both),
                )
            )
    return found


def _kept(contract: Contract) -> dict[str, Any]:
    """What is not at its default, in an order that does not depend on how sets happen to be kept."""
    value = contract.model_dump(mode="json", exclude_defaults=True)
    if "definite_not_applied_codes" in value:
        value["definite_not_applied_codes"].sort()
    return value


def _places(contract: Contract) -> dict[str, Any]:
    """Each field with its value, also where that is the default: what is left out holds as well."""
    value = contract.model_dump(mode="json", exclude_none=True)
    value["definite_not_applied_codes"].sort()
    tables = {f"actions.{name}": action for name, action in value.pop("actions").items()}
    tables |= {name: value.pop(name) for name in _SINGLE if name in value}
    return {**value, **tables}


def _shown(places: Mapping[str, Any], place: str) -> tuple[str, ...]:
    value = places.get(place)
    if value is None:
        return ()
    return tuple(_lines(value)) if isinstance(value, dict) else (_value(value),)


def _lines(table: dict[str, Any]) -> list[str]:
    return [f"{_key(name)} = {_value(inner)}" for name, inner in table.items()]


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(int(value)) if value == int(value) else repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, dict):
        return f"{{ {', '.join(_lines(value))} }}"
    # A JSON text is a TOML text too, once what JSON may leave as it is (DEL) is escaped.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _value(name)
