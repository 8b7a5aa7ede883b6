"""Templates of a contract: which value of a draft goes where. Pure, and nothing in them changes from one render to the next.

"/accounts/{account}/records/{record}"      in addresses each value is one segment
"{body.amount.value}"                       one place alone keeps the value as it is: a number stays a number
"Order {record} of {body.customer}"         within text it becomes text
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from approvals.rendering import CannotRender
from dispatch.units import as_amount, as_minor
from workflows.authoring import OperationDraft

NAMES = (
    "record",
    "record_version",
    "operation_key",
    "account",
    "title",
    "amount",
    "amount_minor",
    "currency",
)
ASKED_BY = ("operation_key", "reference", "record", "account")
"""What the path of a look-up can name."""

_ANY_PLACE = re.compile(r"\{([^{}]*)\}")
_PLACE = re.compile(r"\{([a-z_]+(?:\.[A-Za-z0-9_-]+)*)\}")


def places(template: str) -> list[str]:
    """The names that a template's places have."""
    return _PLACE.findall(template)


def unknown_places(template: str) -> Iterator[str]:
    """What a contract says wrongly: a place of a name that no draft has."""
    for name in places(template):
        if name not in NAMES and not name.startswith("body."):
            known = ", ".join(f"{{{n}}}" for n in NAMES)
            yield f"{{{name}}} is no value of an operation; there are {known} and {{body.…}}"


def unaskable_places(path: str) -> Iterator[str]:
    """What the path of a look-up says wrongly: a place that it cannot fill, or half of one."""
    for name in _ANY_PLACE.findall(path):
        if name not in ASKED_BY:
            known = ", ".join(f"{{{n}}}" for n in ASKED_BY)
            yield f"{{{name}}} is nothing that a look-up can ask by; there are {known}"
    if set("{}") & set(_ANY_PLACE.sub("", path)):
        yield "the lookup's path has half of a place: a brace without its other"


def values_of(draft: OperationDraft, account: str, key: str) -> dict[str, Any]:
    """Every value that a place can have; `body` is the draft's own. None where the draft names none."""
    minor = as_minor(draft.amount, draft.currency) if draft.amount is not None and draft.currency else None
    return {
        "record": draft.record,
        "record_version": draft.record_version or None,
        "operation_key": key,
        "account": account or None,
        "title": draft.title,
        # In its currency's decimals, as it is signed: equal money is the same bytes however the author wrote it.
        "amount": as_amount(minor, draft.currency) if minor is not None and draft.currency else draft.amount,
        "amount_minor": minor,
        "currency": draft.currency,
        "body": draft.body,
    }


def as_text(template: str, values: Mapping[str, Any]) -> str:
    """A template as text. Raises CannotRender where a value is missing or has no text of its own."""
    return _PLACE.sub(lambda m: _text(m.group(1), _value(m.group(1), values)), template)


def as_value(template: str, values: Mapping[str, Any]) -> Any:
    """The value of a template: that of its one place as it is, or its text. Raises CannotRender."""
    alone = _PLACE.fullmatch(template)
    return _value(alone.group(1), values) if alone is not None else as_text(template, values)


def _value(name: str, values: Mapping[str, Any]) -> Any:
    found: Any = values
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    if found is None:
        raise CannotRender(f"The contract sends {{{name}}}, and the draft names none.")
    return found


def _text(name: str, value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise CannotRender(f"The contract puts {{{name}}} into a text, and it is neither a text nor a number.")
