"""What a person writes beside a decision, or beside taking one back: kept as it was typed, or refused."""

from __future__ import annotations

from collections.abc import Sequence

from access.refusals import Unprocessable
from approvals import canonical

LONGEST_REASON = 4000


class ReasonMissing(Unprocessable):
    """Saying no needs a reason; or the reason cannot be kept."""


def check_reason(reason: str, fields: Sequence[str] = ()) -> None:
    """Raise ReasonMissing unless a reason, and the fields that it is about, can be kept."""
    try:
        canonical.check([reason, *fields])
    except canonical.NotCanonical as broken:
        raise ReasonMissing("The reason contains a character that cannot be stored.") from broken
    if len(reason) > LONGEST_REASON:
        raise ReasonMissing(f"Keep the reason under {LONGEST_REASON:,} characters.")
