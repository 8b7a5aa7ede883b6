"""Text of others on a terminal."""

from __future__ import annotations


def one_line(text: str) -> str:
    """It in one line: whoever made it could write over the lines above by what a terminal obeys."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
