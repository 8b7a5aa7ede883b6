"""A job's fan-outs: one cell an item, where there are few enough to be told apart."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from console import words
from workflows.authoring import Workflow
from workflows.models import Checkpoint, ItemInput, Stage, StageKind, WorkItem
from workflows.states import STUCK_ITEM_STATES, ItemState

FAN_LEAST, FAN_MOST = 2, 60
NAMES = ("label", "title", "name", "rule", "reference", "key", "id")
FINDING_FIELDS = ("passes", "passed", "ok")


@dataclass(frozen=True, slots=True)
class Cell:
    """One item of a fan-out, as its cell says it."""

    item_id: int
    number: int
    name: str
    mark: str
    says: str
    hot: bool


@dataclass(frozen=True, slots=True)
class Fan:
    """The fan-out of one stage. `cells` is empty when there are too many for a grid; then the list shows what stopped."""

    stage_id: int
    number: int
    title: str
    total: int
    reading: str
    cells: tuple[Cell, ...]


def fans_of(
    definition: Workflow | None, stages: Sequence[Stage], counts: Mapping[int, dict[int, int]]
) -> list[Fan]:
    """The fan-outs among a job's stages; `counts` are items by stage and state. Three queries where one is drawn."""
    fanned = [s for s in stages if s.kind == StageKind.EACH and s.total >= FAN_LEAST]
    drawn = [s for s in fanned if s.total <= FAN_MOST]
    items = (
        list(
            WorkItem.objects.filter(job_id=drawn[0].job_id, stage__in=drawn).order_by(
                "stage", "ordinal", "pk"
            )
        )
        if drawn
        else []
    )
    inputs = dict(ItemInput.objects.filter(item__in=items).order_by("version").values_list("item", "value"))
    outputs = dict(
        Checkpoint.objects.filter(item__in=items).order_by("version").values_list("item", "output")
    )
    cells: dict[int, list[Cell]] = defaultdict(list)
    for item in items:
        cells[item.stage_id].append(_cell(item, inputs.get(item.pk, ""), outputs.get(item.pk, "")))
    return [
        Fan(
            stage_id=s.pk,
            number=s.ordinal + 1,
            title=words.stage_title(definition, s.name),
            total=s.total,
            reading=_reading(counts[s.pk]),
            cells=tuple(cells[s.pk]),
        )
        for s in fanned
    ]


def _reading(counts: dict[int, int]) -> str:
    said = (
        (ItemState.SUCCEEDED, "done"),
        (ItemState.RUNNING, "running"),
        (ItemState.BACKING_OFF, "to retry"),
        (ItemState.EXHAUSTED, "exhausted"),
        (ItemState.REFUSED, "stopped"),
        (ItemState.READY, "ready"),
        (ItemState.WAITING, "waiting"),
        (ItemState.CANCELLED, "cancelled"),
        (ItemState.SKIPPED, "skipped"),
    )
    return ", ".join(f"{counts[s.number]:,} {word}" for s, word in said if counts.get(s.number))


def _cell(item: WorkItem, value: str, output: str) -> Cell:
    state = item.state_name
    mark, says = _MARKS[state]
    if state is ItemState.SUCCEEDED and is_finding(output):
        mark, says = "found", "finding"
    return Cell(
        item_id=item.pk,
        number=item.ordinal,
        name=name_of(value) or f"Item {item.key}",
        mark=mark,
        says=f"again, attempt {item.attempts + 1}" if state is ItemState.BACKING_OFF else says,
        hot=state in (ItemState.BACKING_OFF, *STUCK_ITEM_STATES),
    )


_MARKS = {
    ItemState.READY: ("pending", "ready"),
    ItemState.BACKING_OFF: ("retry", "again"),
    ItemState.RUNNING: ("running", "running"),
    ItemState.WAITING: ("pending", "waiting"),
    ItemState.SUCCEEDED: ("done", "done"),
    ItemState.EXHAUSTED: ("exhausted", "exhausted"),
    ItemState.REFUSED: ("exhausted", "stopped"),
    ItemState.SKIPPED: ("cancelled", "skipped"),
    ItemState.CANCELLED: ("cancelled", "cancelled"),
    ItemState.COMPENSATED: ("done", "undone"),
}


def name_of(text: str) -> str:
    """What an element calls itself, in 60 characters: the first telling field of it, or its own text."""
    value = _loads(text)
    if isinstance(value, dict):
        value = next((value[n] for n in NAMES if isinstance(value.get(n), str | int) and value[n]), "")
    return str(value)[:60] if isinstance(value, str | int) else ""


def is_finding(output: str) -> bool:
    """Whether a succeeded item found something: its result says that it does not pass."""
    value = _loads(output)
    return isinstance(value, dict) and any(value.get(name) is False for name in FINDING_FIELDS)


def _loads(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
