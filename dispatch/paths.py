"""Values at dotted paths of parsed JSON: how contracts name what stands in an answer, a look-up or a callback."""

from __future__ import annotations

from typing import Any

from dispatch.texts import kept


def at_path(content: Any, path: str) -> Any:
    """The value at a dotted path of parsed JSON, or None. A number is a place in a list, from 0."""
    for name in path.split("."):
        if isinstance(content, list) and name.isascii() and name.isdigit() and len(name) < 5:
            content = content[int(name)] if int(name) < len(content) else None
        elif isinstance(content, dict):
            content = content.get(name)
        else:
            return None
    return content


def word_at(content: Any, path: str) -> str:
    """The value there as one word: a text, a whole number, true or false; "" where there is none or it is more."""
    value = at_path(content, path) if path else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return kept(str(value)) if isinstance(value, str | int) else ""
