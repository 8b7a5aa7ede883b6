"""What people did to a job's items: corrected them, or left them out. The journal knows; the items' own rows do not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from workflows.models import Job, JournalEntry

CORRECTED, SKIPPED = "item.corrected", "item.skipped"


@dataclass(frozen=True, slots=True)
class Hand:
    """One deed of one person on one item. `version`: of the item's input, where it was corrected."""

    item_id: int
    what: str
    by: str
    at: datetime
    reason: str
    version: int


def hands_on(job: Job, item_id: int | None = None) -> list[Hand]:
    """The deeds on a job's items, or on one of them, oldest first. One query."""
    entries = JournalEntry.objects.filter(job=job, event__in=(CORRECTED, SKIPPED))
    if item_id is not None:
        entries = entries.filter(evidence__contains=f'"item":{item_id},')
    return [_hand(entry) for entry in entries.order_by("sequence")]


def items_of(hands: list[Hand], what: str) -> list[int]:
    """The items that this was done to, each once."""
    return sorted({hand.item_id for hand in hands if hand.what == what})


def _hand(entry: JournalEntry) -> Hand:
    told = json.loads(entry.evidence)
    return Hand(
        item_id=int(told["item"]),
        what=entry.event,
        by=entry.actor_name,
        at=entry.at,
        reason=str(told.get("reason", "")),
        version=int(told.get("version", 0)),
    )
