"""Running a rule's condition over facts: `field OPERATOR field-or-literal`, one or more joined by ` and `.

Nothing is evaluated as code. Text that reads as a number compares as a decimal, so "9.50" is below "10.00"; any other
text (a date, a name) compares as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from operator import eq, ge, gt, le, lt, ne
from typing import Any

Value = bool | Decimal | str
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": eq,
    "!=": ne,
    "<=": le,
    ">=": ge,
    "<": lt,
    ">": gt,
}
_COMPARISON = re.compile(r"([a-z][a-z0-9_]*) (==|!=|<=|>=|<|>) (.+)")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,4})?")
_FIELD = re.compile(r"[a-z][a-z0-9_]*")


class Unreadable(Exception):
    """The condition cannot be run over these facts; the message says why."""


def holds(condition: str, facts: Mapping[str, bool | int | str]) -> bool:
    """Whether every comparison of the condition is true. Raises Unreadable."""
    return all(_compare(part.strip(), facts) for part in condition.split(" and "))


def _compare(comparison: str, facts: Mapping[str, bool | int | str]) -> bool:
    parts = _COMPARISON.fullmatch(comparison)
    if parts is None:
        raise Unreadable(f"{comparison!r} is no comparison")
    name, operator, right = parts.groups()
    here, there = _fact(name, facts), _operand(right, facts)
    if type(here) is not type(there):
        raise Unreadable(f"{comparison!r} compares things of different kinds")
    return OPERATORS[operator](here, there)


def _operand(text: str, facts: Mapping[str, bool | int | str]) -> Value:
    if text in ("true", "false"):
        return text == "true"
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return _value(text[1:-1])
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    if not _FIELD.fullmatch(text):
        raise Unreadable(f"{text!r} is neither a field nor a value")
    return _fact(text, facts)


def _fact(name: str, facts: Mapping[str, bool | int | str]) -> Value:
    if name not in facts:
        raise Unreadable(f"the facts do not say {name}")
    return _value(facts[name])


def _value(fact: bool | int | str) -> Value:
    if isinstance(fact, bool):
        return fact
    if isinstance(fact, int) or _NUMBER.fullmatch(fact):
        return Decimal(fact)
    return fact
