"""In what a proposal differs from the one before it, point by point, from the documents that were signed. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from approvals import canonical

OURS = "(operation key)"


@dataclass(frozen=True, slots=True)
class Difference:
    """One point in which this proposal differs from the one before it; None where there was or is nothing."""

    what: str
    before: str | None
    after: str | None


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """What a reader of the earlier proposal has to look at again. Keys, times and numbers always differ: left out."""
    was, now = _numbered(_points(before)), _numbered(_points(after))
    names = [*now, *(name for name in was if name not in now)]
    return [
        Difference(name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)
    ]


def _numbered(points: Iterable[tuple[str, str]]) -> dict[str, str]:
    """By name; of several points of one name each has its number, so that none hides another."""
    found: dict[str, str] = {}
    times: Counter[str] = Counter()
    for name, value in points:
        times[name] += 1
        found[name if times[name] == 1 else f"{name} ({times[name]})"] = value
    return found


def _points(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, label in (
        ("title", "Title"),
        ("summary", "Summary"),
        ("recipient", "Recipient"),
        ("model_text", "Model text"),
        ("model_route", "Model route"),
        ("amount_label", "What the amount is"),
    ):
        yield label, value[name]
    if value["amount"] is not None:
        yield "Amount", f"{value['amount']} {value['currency']}"
    for hand in value.get("hands", {}).get("latest", []):
        place = f"{hand['step']} {hand['key']}".strip()
        yield f"{place}: {hand['what']}", f"by {hand['by']}"
    for source in value["sources"]:
        yield f"Source {source['name']}", f"version {source['version']}"
    yield "Policy", f"{value['policy']['name']} revision {value['policy']['revision']}"
    for operation in value["operations"]:
        for what, said in _operation(operation):
            yield f"Operation {operation['ordinal']}: {what}", said


def _operation(operation: dict[str, Any]) -> Iterator[tuple[str, str]]:
    key = operation["operation_key"]
    yield "title", operation["title"]
    yield "record", operation["record"]
    yield "target", f"{operation['method']} {operation['target'].replace(key, OURS)}"
    yield "account", operation["account"]
    yield "contract", f"{operation['receiver']} version {operation['contract_version']}"
    yield "order", "waits for none" if operation["independent"] else "waits for those before it"
    if operation["amount"] is not None:
        yield "amount", f"{operation['amount']} {operation['currency']}"
    for change in operation["changes"]:
        label = change["label"]
        yield label, change["proposed"]
        yield f"{label}, current value", "nothing" if change["current"] is None else change["current"]
        by = "the model" if change["by_model"] else "no model"
        yield f"{label}, source", f"{change['source']}, version {change['source_version']}, by {by}"
    for name, header in sorted(operation["headers"].items()):
        yield f"header {name}", header.replace(key, OURS)
    yield from _body(operation["body"].replace(key, OURS))


def _body(text: str) -> Iterator[tuple[str, str]]:
    """Each value of a JSON body by its place, however deep; another body as a whole."""
    try:
        value = canonical.parse(text)
    except canonical.NotCanonical:
        value = None
    if not isinstance(value, dict | list):
        yield "body", text
        return
    yield from _leaves(value, "body")


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}")
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{index}]")
    else:
        # "1" and 1 are two values.
        yield path, value if isinstance(value, str) else f"{canonical.write(value)} (not text)"
