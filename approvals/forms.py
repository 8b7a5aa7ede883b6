"""What a person posts about a proposal. The forms only gather: what is refused is said by the actions."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import QueryDict

from approvals.reasons import LONGEST_REASON

LONGEST_DIGEST = 200
MOST_FIELDS = 100


@dataclass(frozen=True, slots=True)
class Posted:
    """One posted decision as it came, line ends made equal. Nothing of it is believed yet."""

    verdict: str
    digest: str
    reason: str
    fields: tuple[str, ...]
    knows_of: int = 0


def posted(data: QueryDict) -> Posted:
    """The decision in a form. Who decides is never read from it."""
    return Posted(
        verdict=data.get("verdict", "")[:40],
        digest=data.get("digest", "")[:LONGEST_DIGEST],
        reason=reason_of(data),
        fields=tuple(f[:300] for f in data.getlist("fields")[:MOST_FIELDS]),
        knows_of=_number(data.get("knows_of", "")),
    )


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


def reason_of(data: QueryDict) -> str:
    """The reason as it was typed. One that is too long stays too long, so that it is refused and not cut."""
    return data.get("reason", "").replace("\r\n", "\n")[: LONGEST_REASON + 1]
