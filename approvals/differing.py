"""In what a proposal differs from the one before it, point by point, from the documents that were signed. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Difference:
    """One point in which this proposal differs from the one before it; None where there was or is nothing."""

    what: str
    before: str | None
    after: str | None


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """What a reader of the earlier proposal has to look at again. Keys, times and numbers always differ: left out."""
    was, now = dict(_points(before)), dict(_points(after))
    names = [*now, *(name for name in was if name not in now)]
    return [
        Difference(name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)
    ]


def _points(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, label in (
        ("title", "Title"),
        ("summary", "Summary"),
        ("recipient", "Recipient"),
        ("model_text", "Model text"),
    ):
        yield label, value[name]
    if value["amount"] is not None:
        yield "Amount", f"{value['amount']} {value['currency']}"
    for hand in value.get("hands", {}).get("latest", []):
        yield f"{hand['step']} {hand['key']}: {hand['what']}", f"by {hand['by']}"
    for source in value["sources"]:
        yield f"Source {source['name']}", f"version {source['version']}"
    yield "Policy", f"{value['policy']['name']} revision {value['policy']['revision']}"
    for operation in value["operations"]:
        place = f"Operation {operation['ordinal']}"
        yield f"{place}: target", f"{operation['method']} {operation['target']}"
        yield f"{place}: account", operation["account"]
        yield f"{place}: contract", f"{operation['receiver']} version {operation['contract_version']}"
        for change in operation["changes"]:
            yield f"{place}: {change['label']}", change["proposed"]
        yield f"{place}: body", operation["body"].replace(operation["operation_key"], "(operation key)")
