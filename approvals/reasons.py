"""What a person writes beside a decision, or beside taking one back: kept as it was typed, or refused."""

from __future__ import annotations

from collections.abc import Sequence

from access.refusals import Unprocessable
from approvals import canonical

LONGEST_REASON = 4000
LONGEST_SHORT = 1000
"""Of the reason for a block or a policy, or for taking something back."""


class ReasonMissing(Unprocessable):
    """Saying no needs a reason; or the reason cannot be kept."""


def required_reason(reason: str) -> str:
    """The reason without the blanks around it, where none will not do. Raises ReasonMissing."""
    if not reason.strip():
        raise ReasonMissing("Say why: whoever reads this later has only your reason.")
    check_reason(reason, longest=LONGEST_SHORT)
    return reason.strip()


def check_reason(reason: str, fields: Sequence[str] = (), *, longest: int = LONGEST_REASON) -> None:
    """Raise ReasonMissing unless a reason, and the fields that it is about, can be kept."""
    try:
        canonical.check([reason, *fields])
    except canonical.NotCanonical as broken:
        raise ReasonMissing("The reason contains a character that cannot be stored.") from broken
    if len(reason) > longest:
        raise ReasonMissing(f"A reason has {longest:,} characters at most.")
