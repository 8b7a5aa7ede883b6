"""An answer that tells of each item of a request by itself: 207, or a batch. A part of the contract, as data.

One operation stays one operation: all of its items applied is applied, all refused is refused, and some of each is
something else than was approved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from dispatch.callback_terms import Progress, Stage
from dispatch.comparison import Difference, approved_values
from dispatch.paths import at_path, word_at

Place = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Items(BaseModel):
    """Where an answer lists its items, in the order of those that were sent, and what their words mean."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    statuses: Annotated[tuple[int, ...], Field(min_length=1)] = (207,)
    path: Place
    sent_path: Place
    progress: Progress


@dataclass(frozen=True, slots=True)
class ItemsTold:
    """What they come to together. `refused`: the items that were not applied, each with its word."""

    stage: Stage
    summary: str
    refused: tuple[Difference, ...] = ()

    @property
    def is_mixed(self) -> bool:
        return self.stage is Stage.APPLIED and bool(self.refused)


def told_of(items: Items, *, sent: bytes, content: Any) -> ItemsTold:
    """What an answer tells of each item. UNCLEAR where it does not tell of all of them in words that the contract names."""
    asked, listed = at_path(approved_values(sent), items.sent_path), at_path(content, items.path)
    count = len(asked) if isinstance(asked, list) else 0
    if not isinstance(listed, list) or not count or len(listed) != count:
        told = len(listed) if isinstance(listed, list) else 0
        return ItemsTold(Stage.UNCLEAR, f"it tells of {told} of {count} items")
    stages = [items.progress.stage_of(item) for item in listed]
    for stage in (Stage.UNCLEAR, Stage.PENDING):
        if stage in stages:
            return ItemsTold(stage, f"{stages.count(stage)} of {count} items: {stage.value}")
    refused = tuple(
        Difference(f"item {number}", Stage.APPLIED.value, word_at(item, items.progress.path))
        for number, (item, stage) in enumerate(zip(listed, stages, strict=True), 1)
        if stage is Stage.FAILED
    )
    stage = Stage.FAILED if len(refused) == count else Stage.APPLIED
    return ItemsTold(stage, f"{count - len(refused)} of {count} items applied", refused)
