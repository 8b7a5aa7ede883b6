"""Whether a recipient is blocked: hard policy, asked at freezing, at a decision, before every send and in its last moment."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from access.statements import Select
from approvals.models import RecipientBlock
from web.hidden import LOOKS_BLANK, is_hidden


def key_of(recipient: str) -> str:
    """A name as it is compared: without case, width, spacing and characters that nobody sees. Empty for no name."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", recipient).casefold())
    return " ".join("".join(map(_as_compared, folded)).split())


def _as_compared(char: str) -> str:
    if char.isspace() or char in LOOKS_BLANK:
        return " "
    return "" if is_hidden(char) else char


def blocks_of(recipients: Iterable[str]) -> dict[str, RecipientBlock]:
    """By key: the live blocks among these names. One query, or none where nobody is named."""
    keys = sorted({key for name in recipients if (key := key_of(name))})
    return {block.key: block for block in _LIVE.all(keys)} if keys else {}


def block_of(recipient: str) -> RecipientBlock | None:
    """The live block of one recipient, or None."""
    return blocks_of([recipient]).get(key_of(recipient))


def said_of(block: RecipientBlock) -> str:
    """The sentence for whoever is stopped by it."""
    return f"{block.recipient} is blocked by {block.blocked_by}: {block.reason}"


_LIVE = Select(lambda keys: RecipientBlock.objects.filter(key__among=keys, lifted_at__isnull=True))
