"""The items of one stage, by what became of them, a page at a time: however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from access.refusals import NotFound
from console import words
from console.queries.fans import name_of
from console.queries.hands import SKIPPED, Hand, hands_on, items_of
from console.queries.standing import Sign
from console.queries.steps import counts_of, sign_of_item
from console.queries.tabs import Tab, tabs_of, which
from workflows.models import Attempt, ItemInput, Job, Stage, StageKind, WorkItem

PAGE = 50


class NoSuchStage(NotFound):
    """There is no such step in this job (yet)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One item of the list. `hand`: what a person did to it last; `last`: its latest attempt."""

    item: WorkItem
    name: str
    sign: Sign
    last: Attempt | None
    hand: Hand | None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a stage's items in input order. `after` is the ordinal to go on from, or 0."""

    stage: Stage
    title: str
    tabs: Sequence[Tab]
    rows: Sequence[Row]
    after: int


def stage_of(job: Job, stage_id: int) -> Stage:
    """The job's own stage, or NoSuchStage. Machines' are not shown."""
    stage = Stage.objects.filter(job=job, pk=stage_id).exclude(kind=StageKind.MACHINE).first()
    if stage is None:
        raise NoSuchStage(f"There is no step {stage_id} in {job.label}.")
    return stage


def page_of(job: Job, stage: Stage, show: str, *, after: int = 0) -> Page:
    """The items of a stage that `show` leaves, after an ordinal. Five queries, however many items."""
    hands = hands_on(job)
    items = WorkItem.objects.filter(job=job, stage=stage, ordinal__gt=after).filter(which(show, hands))
    found = list(items.order_by("ordinal", "pk")[: PAGE + 1])
    page = found[:PAGE]
    last = {
        a.item_id: a
        for a in Attempt.objects.filter(item__in=page)
        .defer("trace", "answer")
        .order_by("item", "-claim_no", "-pk")
        .distinct("item")
    }
    inputs = dict(ItemInput.objects.filter(item__in=page).order_by("version").values_list("item", "value"))
    by_item = {hand.item_id: hand for hand in hands}
    by_hand = set(items_of(hands, SKIPPED))
    return Page(
        stage=stage,
        title=words.stage_title(words.definition_of(job.workflow, job.revision), stage.name),
        tabs=tabs_of(stage, counts_of(job, [stage])[stage.pk], hands),
        rows=[
            Row(
                item=i,
                name=name_of(inputs.get(i.pk, "")) if stage.kind == StageKind.EACH else "",
                sign=sign_of_item(i, late=i.pk not in by_hand),
                last=last.get(i.pk),
                hand=by_item.get(i.pk),
            )
            for i in page
        ],
        after=page[-1].ordinal if len(found) > PAGE else 0,
    )
