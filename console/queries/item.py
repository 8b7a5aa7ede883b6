"""One work item with its input, its output and its attempts."""

from __future__ import annotations

import json
from dataclasses import dataclass

from access.refusals import NotFound
from console import words
from console.queries.fans import name_of
from console.queries.steps import ItemRow, item_row
from workflows.models import Attempt, Checkpoint, ItemInput, Job, StageKind, WorkItem

LONGEST_SHOWN = 50_000


class NoSuchItem(NotFound):
    """There is no such step item in this job."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An item's page. Texts over 50,000 characters are cut, and `input_cut` or `output_cut` says so."""

    row: ItemRow
    name: str
    input: str
    input_cut: bool
    output: str
    output_cut: bool
    checkpoint: Checkpoint | None

    @property
    def told(self) -> list[Attempt]:
        """The attempts that failed and left something to read, newest first."""
        return [a for a in reversed(self.row.attempts) if a.trace or a.answer]


def item_of(job: Job, item_id: int) -> Shown:
    """The item, or NoSuchItem where this job has none with that number. Four queries."""
    item = WorkItem.objects.filter(job=job, pk=item_id).select_related("stage").first()
    if item is None:
        raise NoSuchItem(f"There is no item {item_id} in {job.label}.")
    attempts = tuple(Attempt.objects.filter(item=item).order_by("claim_no", "pk"))
    given = ItemInput.objects.filter(item=item).order_by("-version").values_list("value", flat=True).first()
    checkpoint = Checkpoint.objects.filter(item=item).order_by("-version").first()
    single = job.input if item.stage.kind != StageKind.EACH else ""
    given_text, output = _pretty(given or single), _pretty(checkpoint.output if checkpoint else "")
    definition = words.definition_of(job.workflow, job.revision)
    return Shown(
        row=item_row(item, attempts, definition),
        name=name_of(given or "") or f"Item {item.key}",
        input=given_text[:LONGEST_SHOWN],
        input_cut=len(given_text) > LONGEST_SHOWN,
        output=output[:LONGEST_SHOWN],
        output_cut=len(output) > LONGEST_SHOWN,
        checkpoint=checkpoint,
    )


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
