"""Words of others, before a row keeps them: what PostgreSQL cannot keep is made visible, secrets of ours are taken out."""

from __future__ import annotations

from web.redaction import hide_read


def kept(text: str) -> str:
    """The text without what PostgreSQL cannot keep: NUL, and half of a pair of characters."""
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()


def shown(text: str) -> str:
    """The same without the secrets that this process has read: a receiver may say back what it was sent."""
    return hide_read(kept(text))
