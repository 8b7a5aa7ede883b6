"""What operations are worth, in the smallest unit of their currency: whole numbers, which databases add up exactly."""

from __future__ import annotations

from decimal import Decimal

from approvals import canonical, document
from dispatch.units import as_amount as as_amount
from dispatch.units import as_minor as as_minor


def amounts_of(text: str) -> dict[int, tuple[int | None, str]]:
    """Each operation's amount and currency by its ordinal, as a signed document has them; none where it cannot be read.

    The document writes money in the decimals of its currency, so nothing is rounded.
    """
    try:
        operations = document.read(text)["operations"]
    except canonical.NotCanonical:
        return {}
    return {o["ordinal"]: _minor(o.get("amount"), o.get("currency") or "") for o in operations}


def _minor(amount: str | None, currency: str) -> tuple[int | None, str]:
    if amount is None or not currency:
        return None, ""
    minor = as_minor(Decimal(amount), currency)
    return (None, "") if minor is None else (minor, currency)
