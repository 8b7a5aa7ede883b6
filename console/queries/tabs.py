"""What became of a stage's items, as the tabs of their list: how many came to each, and which those are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import Q

from console.queries.hands import CORRECTED, SKIPPED, Hand, items_of
from workflows.models import Stage, WorkItem
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState

APART = ("stopped", "late", "skipped", "corrected")
"""What a job's page names beside a step."""


@dataclass(frozen=True, slots=True)
class Tab:
    """One way to narrow the list, with how many items it leaves."""

    name: str
    label: str
    count: int


_SHOW: dict[str, tuple[str, tuple[ItemState, ...]]] = {
    "open": ("Still open", OPEN_ITEM_STATES),
    "stopped": ("Stopped", STUCK_ITEM_STATES),
    "late": ("Late", (ItemState.SKIPPED,)),
    "skipped": ("Skipped", (ItemState.SKIPPED,)),
    "corrected": ("Corrected", ()),
    "undone": ("Undone", (ItemState.COMPENSATED,)),
    "cancelled": ("Cancelled", (ItemState.CANCELLED,)),
    "done": ("Done", (ItemState.SUCCEEDED,)),
}
"""Each filter with its words and the states that it is made of. Late: skipped by the stage's closing, by nobody."""


def which(show: str, hands: list[Hand]) -> Q:
    """What a list is narrowed to; a name that there is not narrows nothing."""
    if show not in _SHOW:
        return Q()
    if show == "corrected":
        return Q(pk__in=items_of(hands, CORRECTED))
    which = Q(state__in=[s.number for s in _SHOW[show][1]])
    if show == "skipped":
        return which & Q(pk__in=items_of(hands, SKIPPED))
    return which & ~Q(pk__in=items_of(hands, SKIPPED)) if show == "late" else which


def tabs_of(stage: Stage, counts: Mapping[int, int], hands: list[Hand]) -> list[Tab]:
    """The filters that leave something, all first."""
    mine = WorkItem.objects.filter(stage=stage, pk__in={hand.item_id for hand in hands}).values_list(
        "pk", "state"
    )
    states = dict(mine) if hands else {}
    skipped = sum(1 for i in items_of(hands, SKIPPED) if states.get(i) == ItemState.SKIPPED.number)
    found = {name: sum(counts.get(s.number, 0) for s in of) for name, (_, of) in _SHOW.items()}
    found["skipped"], found["late"] = skipped, found["late"] - skipped
    found["corrected"] = sum(1 for i in items_of(hands, CORRECTED) if i in states)
    return [
        Tab("", "All", stage.total),
        *(Tab(name, label, found[name]) for name, (label, _) in _SHOW.items() if found[name]),
    ]
