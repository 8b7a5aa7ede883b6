"""One work item: what it was given and who changed that, what it gave, and its attempts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models.functions import Left, Length

from access.refusals import NotFound
from access.tenancy import TenantQuerySet
from console import words
from console.correcting import source_words
from console.queries.fans import name_of
from console.queries.hands import CORRECTED, SKIPPED, Hand, hands_on
from console.queries.steps import ItemRow, item_row
from workflows.authoring.steps import Parameter, Step
from workflows.models import Attempt, Checkpoint, ItemInput, Job, JobInput, Stage, StageKind, WorkItem
from workflows.states import ItemState

LONGEST_SHOWN = 50_000


class NoSuchItem(NotFound):
    """There is no such step item, or no such version of what it was given or gave, in this job."""


@dataclass(frozen=True, slots=True)
class Text:
    """A stored JSON text as a page shows it: indented, cut after 50,000 characters, whole to be saved.

    `by`: the person who wrote it, where one did. `at`: when, where that is kept.
    """

    version: int
    shown: str
    cut: bool
    size: int
    digest: str = ""
    at: datetime | None = None
    by: Hand | None = None


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a single step: where it comes from, and its text if it is one text.

    `item_id` or `stage_id` name where it was made; without either it is the job's input.
    """

    name: str
    source: str
    corrected: bool = False
    text: Text | None = None
    item_id: int = 0
    stage_id: int = 0


@dataclass(frozen=True, slots=True)
class RouteUsed:
    """What one attempt used by one route, as far as it differs from plain tokens in and out."""

    route: str
    calls: int
    tokens_in: int
    tokens_out: int
    tokens_cached: int
    tokens_cache_written: int
    tokens_reasoning: int
    cost: Decimal
    unpriced: int


@dataclass(frozen=True, slots=True)
class Told:
    """An attempt that left something to read. `version`: of its input, where there are several; 0 where not."""

    attempt: Attempt
    version: int
    routes: Sequence[RouteUsed]


@dataclass(frozen=True, slots=True)
class Shown:
    """An item's page. Inputs and outputs newest first."""

    row: ItemRow
    name: str
    inputs: Sequence[Text]
    arguments: Sequence[Argument]
    outputs: Sequence[Text]
    skipped: Hand | None
    late: bool

    @property
    def told(self) -> list[Told]:
        """The attempts that left something to read, newest first: what failed, and what used several routes."""
        return [
            Told(a, self._version(a) if len(self.inputs) > 1 else 0, _routes(a))
            for a in reversed(self.row.attempts)
            if a.trace or a.answer or a.by_route
        ]

    def _version(self, attempt: Attempt) -> int:
        """The newest that had been written when it began; the first is older than every attempt."""
        had = [t.version for t in self.inputs if t.by is None or t.by.at <= attempt.started_at]
        return max(had, default=0)

    @property
    def corrected(self) -> Hand | None:
        """Who corrected it last."""
        return next((text.by for text in self.inputs if text.by), None)


def _routes(attempt: Attempt) -> list[RouteUsed]:
    told = json.loads(attempt.by_route) if attempt.by_route else []
    return [RouteUsed(**{**one, "cost": Decimal(one["cost"])}) for one in told]


def item_of(job: Job, item_id: int) -> Shown:
    """The item, or NoSuchItem where this job has none with that number. Seven queries at most."""
    item = work_item(job, item_id)
    attempts = tuple(Attempt.objects.filter(item=item).order_by("claim_no", "pk"))
    definition = words.definition_of(job.workflow, job.revision)
    step = definition.step_named(item.stage.name) if definition is not None else None
    hands = hands_on(job, item.pk)
    by_version = {hand.version: hand for hand in hands if hand.what == CORRECTED}
    inputs = [
        _text(row, version=row.version, by=by_version.get(row.version))
        for row in _read(ItemInput.objects.filter(item=item), "value")
    ]
    outputs = [_saved(row) for row in _read(Checkpoint.objects.filter(item=item), "output")]
    is_skipped = item.state_name is ItemState.SKIPPED
    skipped = next((h for h in hands if h.what == SKIPPED), None) if is_skipped else None
    return Shown(
        row=item_row(item, attempts, definition),
        name=_name(item, inputs),
        inputs=inputs,
        arguments=_arguments(job, item, step, inputs),
        outputs=outputs,
        skipped=skipped,
        late=is_skipped and skipped is None,
    )


def work_item(job: Job, item_id: int) -> WorkItem:
    """The item with its stage, or NoSuchItem."""
    item = WorkItem.objects.filter(job=job, pk=item_id).select_related("stage").first()
    if item is None:
        raise NoSuchItem(f"There is no item {item_id} in {job.label}.")
    return item


def input_text(job: Job, item_id: int, version: int) -> str:
    """Exactly what was kept as an item's input in a version, or NoSuchItem."""
    return _whole(ItemInput.objects.filter(item=work_item(job, item_id), version=version), "value")


def output_text(job: Job, item_id: int, version: int) -> str:
    """Exactly what an item gave in a version, whose SHA-256 is the digest, or NoSuchItem."""
    return _whole(Checkpoint.objects.filter(item=work_item(job, item_id), version=version), "output")


def _whole(rows: TenantQuerySet[Any], column: str) -> str:
    text = rows.values_list(column, flat=True).first()
    if text is None:
        raise NoSuchItem("There is no such version.")
    return str(text)


def _read(rows: TenantQuerySet[Any], column: str) -> list[Any]:
    """Rows, newest version first, with no more of their text than is shown: its `start`, and its `size`."""
    start = Left(column, LONGEST_SHOWN + 1)
    return list(rows.defer(column).annotate(start=start, size=Length(column)).order_by("-version"))


def _text(row: Any, *, version: int, **more: Any) -> Text:
    shown = _pretty(row.start) if row.size <= LONGEST_SHOWN else row.start
    cut = len(shown) > LONGEST_SHOWN
    return Text(version, shown[:LONGEST_SHOWN], cut, row.size, **more)


def _saved(row: Any) -> Text:
    return _text(row, version=row.version, digest=row.digest, at=row.created_at)


def _name(item: WorkItem, inputs: Sequence[Text]) -> str:
    named = name_of(inputs[0].shown) if inputs and item.stage.kind == StageKind.EACH else ""
    return named or f"Item {item.key}"


def _arguments(job: Job, item: WorkItem, step: Step | None, inputs: Sequence[Text]) -> list[Argument]:
    """Where what it works on comes from; for a validation the job's input alone."""
    if item.stage.kind == StageKind.VALIDATE:
        return [Argument("input", "the job’s input", text=_job_input(job))]
    if step is None:
        return []
    corrected: set[str] = set()
    if step.each is None and inputs and not inputs[0].cut:
        corrected = set(json.loads(inputs[0].shown))
    return [_argument(job, p, p.name in corrected) for p in step.parameters if p.source != "element"]


def _argument(job: Job, parameter: Parameter, corrected: bool) -> Argument:
    words_of_it = source_words(parameter)
    if parameter.source == "input":
        return Argument(parameter.name, words_of_it, corrected, _job_input(job))
    stage = Stage.objects.filter(job=job, name=parameter.step).first()
    if stage is None or parameter.source == "outputs":
        return Argument(parameter.name, words_of_it, corrected, stage_id=stage.pk if stage else 0)
    made = WorkItem.objects.get(job=job, stage=stage)
    latest = _read(Checkpoint.objects.filter(item=made), "output")[:1]
    text = _saved(latest[0]) if latest else None
    return Argument(parameter.name, words_of_it, corrected, text, item_id=made.pk)


def _job_input(job: Job) -> Text:
    """The job's input as its steps are given it: what a migration made of it, if one did."""
    migrated = _read(JobInput.objects.filter(job=job), "value")[:1]
    if migrated:
        row = migrated[0]
        return _text(row, version=row.version, digest=row.digest, at=row.created_at)
    (row,) = _read(Job.objects.filter(pk=job.pk), "input")
    return _text(row, version=0, digest=job.input_digest, at=job.created_at)


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text
