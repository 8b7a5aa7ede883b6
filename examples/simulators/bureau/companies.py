"""What the bureau knows: made up from a company's name, so that the same question has the same answer for ever."""

from hashlib import sha256
from typing import Any

LEGAL_FORMS = {"NL": "B.V.", "PL": "Sp. z o.o.", "ES": "S.L.", "DK": "ApS", "IT": "S.r.l."}
"""By country; a company of another one is not in the register."""

UNLISTED = "Unlisted"
"""Nor is one whose name begins so."""

RATINGS = ("A", "A", "B", "B", "B", "C", "D")
RATED_ON = "2026-03-01"


def register_number(country: str, name: str) -> str:
    """The number under which a company of that name is registered."""
    return f"{country}-{sha256(f'{country} {name.casefold()}'.encode()).hexdigest()[:10].upper()}"


def company(country: str, name: str) -> dict[str, Any] | None:
    """The register's entry, or None."""
    if country not in LEGAL_FORMS or not name.strip() or name.startswith(UNLISTED):
        return None
    number = register_number(country, name)
    legal_name = f"{name} {LEGAL_FORMS[country]}"
    return {"number": number, "legal_name": legal_name, "country": country, "status": "active"}


def rating(number: str) -> dict[str, Any]:
    """What the register's company of that number is rated as."""
    drawn = int(sha256(number.encode()).hexdigest(), 16) % len(RATINGS)
    return {"number": number, "rating": RATINGS[drawn], "as_of": RATED_ON}
