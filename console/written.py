"""How a value stands in a field of a form, and how it is read back: what was not touched comes back as it was."""

from __future__ import annotations

import json
import re
from typing import Any

from console.forms import Entry
from workflows import corrections

ABSENT = object()
"""No value at all, which is another thing than null."""

_LONG = 120
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,40})(\.[0-9]{1,40})?([eE][+-]?[0-9]{1,3})?", re.ASCII)


def kind_of(entry: Entry, value: Any) -> str:
    """How a value of this schema is written; what a kind could not hold exactly is written as JSON."""
    kind = {"file": "long", "upload": "text"}.get(entry.kind, entry.kind)
    if kind == "json" and entry.schema.get("type") == "number":
        kind = "number"
    if kind == "text" and isinstance(value, str) and (len(value) > _LONG or "\n" in value):
        kind = "long"
    if value is ABSENT or value is None:
        return kind
    fits = {
        "text": isinstance(value, str),
        "long": isinstance(value, str),
        "bool": isinstance(value, bool),
        "int": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, int | float) and not isinstance(value, bool),
        "choice": isinstance(value, str | int),
        "lines": isinstance(value, list)
        and all(isinstance(v, str) and v == v.strip() and v and "\n" not in v for v in value),
    }
    return kind if fits.get(kind, True) else "json"


def shown(kind: str, value: Any) -> str:
    """The value as the text of its field."""
    if value is None:
        return ""
    if kind == "lines":
        return "\n".join(value)
    if kind in ("text", "long", "choice", "int"):
        return str(value)
    return json.dumps(value, ensure_ascii=False, indent=2 if kind == "json" else None)


def read(entry: Entry, raw: str) -> Any:
    """Text as a value; what is no number stays text, so that the step's types say what is wrong with it.

    Raises InvalidCorrection where JSON is asked for and it is none.
    """
    if entry.kind == "lines":
        return [line.strip() for line in raw.split("\n") if line.strip()]
    if entry.kind == "choice":
        options = entry.schema.get("enum", [entry.schema.get("const")])
        return next((o for o in options if str(o) == raw), raw)
    if entry.kind in ("int", "number") and _NUMBER.fullmatch(raw.strip()):
        return json.loads(raw)
    return corrections.parse(raw, entry.name) if entry.kind == "json" else raw
