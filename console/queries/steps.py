"""The steps of one job: stages with their counts, items with their attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial

from django.db.models import Count, Max, Min, Q

from console import words
from console.queries.fans import FAN_MOST, Fan, fans_of
from console.queries.hands import Hand, hands_on
from console.queries.keeping import Kept
from console.queries.standing import Sign
from console.queries.tabs import APART, Tab, tabs_of
from workflows.authoring import Workflow
from workflows.costs.spent import NOTHING, Line, Spent, StageUse, spent_by, uses_of
from workflows.kinds import NOT_STEPS
from workflows.models import (
    NOT_DONE_NUMBERS,
    STUCK_NUMBERS,
    Attempt,
    AttemptOutcome,
    Job,
    Stage,
    StageKind,
    WorkItem,
)
from workflows.states import ENDED, STUCK_ITEM_STATES, ItemState

LISTED = 100
SUMMED_AT_ONCE = 1000
"""Items of a stage over whose attempts every look at the page sums."""

_RAN = Q(
    outcome__in=[o for o in AttemptOutcome if o not in (AttemptOutcome.WAITING, AttemptOutcome.RELEASED)]
)


@dataclass(frozen=True, slots=True)
class Step:
    """One row of the steps table; ahead of the job it has neither stage nor figures."""

    number: int
    title: str
    sign: Sign
    attempts: int = 0
    route: str = ""
    took: timedelta | None = None
    spent: Spent = NOTHING
    here: bool = False
    stage_id: int = 0
    apart: tuple[Tab, ...] = ()
    """What became of some of its items, each with the list that holds them."""


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item of the items table, with every attempt of it."""

    item: WorkItem
    step: str
    name: str
    sign: Sign
    attempts: tuple[Attempt, ...]
    spent: Spent
    took: timedelta | None

    @property
    def last_error(self) -> str:
        return next((a.error_message for a in reversed(self.attempts) if a.error_class), "")


@dataclass(frozen=True, slots=True)
class Costs:
    """What a job cost, by what became of it. The widths are shares of 300."""

    line: Line
    failed_attempts: int
    kept_width: str
    failed_width: str
    refused_width: str
    refused_x: str


@dataclass(frozen=True, slots=True)
class Figures:
    """How the attempts of one stage ran."""

    attempts: int = 0
    began: datetime | None = None
    ended: datetime | None = None

    @property
    def took(self) -> timedelta | None:
        return self.ended - self.began if self.began and self.ended else None


_large: Kept[dict[int, Figures]] = Kept()


@dataclass(frozen=True, slots=True)
class Work:
    """All that the job page says of steps."""

    steps: tuple[Step, ...]
    done: int
    fans: tuple[Fan, ...]
    items: tuple[ItemRow, ...]
    items_total: int
    costs: Costs
    took: timedelta | None
    stopped: int


def work_of(job: Job) -> Work:
    """Stages, items and attempts of one job. Nine queries, and one more for each step that people had a hand in."""
    definition = words.definition_of(job.workflow, job.revision)
    stages = list(Stage.objects.filter(job=job).exclude(kind__in=NOT_STEPS).order_by("ordinal", "pk"))
    counts = counts_of(job, stages)
    figures = _figures(job, stages)
    uses = uses_of(job.pk)
    steps = _steps(job, definition, stages, counts, figures, uses, hands_on(job))
    return Work(
        steps=tuple(steps),
        done=sum(1 for s in steps if s.sign.code == "SUCCEEDED"),
        fans=tuple(fans_of(definition, stages, counts)),
        items=tuple(_item_rows(_items(job, stages), definition)),
        items_total=sum(s.total for s in stages),
        costs=_costs(job, uses),
        took=_took(figures.values()),
        stopped=sum(counts[s.pk].get(n, 0) for s in stages if s.closed_at is None for n in STUCK_NUMBERS),
    )


def counts_of(job: Job, stages: Sequence[Stage]) -> dict[int, dict[int, int]]:
    """Items by stage and state. One query over a partial index: what succeeded is the rest of a stage's total."""
    found: dict[int, dict[int, int]] = defaultdict(dict)
    rows = WorkItem.objects.filter(job=job, state__in=NOT_DONE_NUMBERS).values_list("stage", "state")
    for stage, state, count in rows.annotate(n=Count("*")).order_by():
        found[stage][state] = count
    for stage in stages:
        found[stage.pk][ItemState.SUCCEEDED.number] = max(stage.total - sum(found[stage.pk].values()), 0)
    return found


def _figures(job: Job, stages: Sequence[Stage]) -> dict[int, Figures]:
    """Sums over attempts: anew for small stages, and for large ones now and then."""
    found = _sums(job, [s for s in stages if s.total <= SUMMED_AT_ONCE])
    for stage in stages:
        if stage.total > SUMMED_AT_ONCE:
            found |= _large.get(stage.pk, partial(_sums, job, [stage]))
    return found


def _sums(job: Job, stages: Sequence[Stage]) -> dict[int, Figures]:
    rows = Attempt.objects.filter(_RAN, item__job=job, item__stage__in=stages).values_list("item__stage")
    sums = rows.annotate(attempts=Count("pk"), began=Min("started_at"), ended=Max("ended_at")).order_by()
    return {stage: Figures(attempts, began, ended) for stage, attempts, began, ended in sums}


def _steps(
    job: Job,
    definition: Workflow | None,
    stages: Sequence[Stage],
    counts: dict[int, dict[int, int]],
    figures: dict[int, Figures],
    uses: Sequence[StageUse],
    hands: list[Hand],
) -> list[Step]:
    steps = []
    for stage in stages:
        row = figures.get(stage.pk, Figures())
        used = [u for u in uses if u.stage_id == stage.pk]
        steps.append(
            Step(
                number=stage.ordinal + 1,
                title=words.stage_title(definition, stage.name),
                sign=_stage_sign(job, stage, counts[stage.pk]),
                attempts=row.attempts,
                route=", ".join(sorted({u.route for u in used})),
                took=row.took,
                spent=sum((u.spent for u in used), NOTHING),
                here=stage.closed_at is None and job.state not in ENDED,
                stage_id=stage.pk,
                apart=tuple(t for t in tabs_of(stage, counts[stage.pk], hands) if t.name in APART),
            )
        )
    opened = {s.name for s in stages}
    ahead = [s for s in definition.steps if s.name not in opened] if definition else []
    for step in ahead:
        waits = (
            Sign("WAITING", "Does not run", "cancelled")
            if job.state in ENDED
            else Sign("WAITING", f"Waits for step {step.ordinal}")
        )
        steps.append(Step(number=step.ordinal + 1, title=step.title, sign=waits))
    return sorted(steps, key=lambda step: step.number)


def _stage_sign(job: Job, stage: Stage, counts: dict[int, int]) -> Sign:
    def of(state: ItemState) -> int:
        return counts.get(state.number, 0)

    done, total = of(ItemState.SUCCEEDED), stage.total
    if total and done == total:
        return Sign("SUCCEEDED")
    if total and of(ItemState.COMPENSATED) == total:
        return Sign("COMPENSATED")
    said = f"{done} of {total}" if stage.kind == StageKind.EACH else ""
    stuck = of(ItemState.EXHAUSTED) + of(ItemState.REFUSED)
    for state, few in (
        (ItemState.EXHAUSTED, ""),
        (ItemState.REFUSED, ""),
        (ItemState.BACKING_OFF, "to retry"),
        (ItemState.CANCELLED, "cancelled"),
        (ItemState.COMPENSATED, "undone"),
        (ItemState.RUNNING, "running"),
        (ItemState.READY, "ready"),
        (ItemState.WAITING, "waiting"),
    ):
        if of(state):
            if state in STUCK_ITEM_STATES and said:
                return Sign(state.value, f"{said}, {stuck} stopped", "exhausted")
            if state is ItemState.REFUSED:
                return Sign(state.value, "Stopped", "exhausted")
            held = state is ItemState.READY and job.held_at is not None
            return Sign("HELD" if held else state.value, f"{said}, {of(state)} {few}" if said else "")
    return Sign("WAITING", said)


def _items(job: Job, stages: Sequence[Stage]) -> list[WorkItem]:
    """The first hundred items with something to tell, in the order of the steps: not what a fan-out did at once.

    Those of a stage that is too large for a grid stand in its own list.
    """
    shown = [s for s in stages if s.total <= FAN_MOST]
    return list(
        WorkItem.objects.filter(job=job, stage__in=shown)
        .exclude(stage__kind=StageKind.EACH, state=ItemState.SUCCEEDED.number, attempts=1)
        .exclude(stage__kind=StageKind.EACH, state=ItemState.READY.number, attempts=0)
        .select_related("stage")
        .order_by("stage__ordinal", "ordinal", "pk")[:LISTED]
    )


def _item_rows(items: Sequence[WorkItem], definition: Workflow | None) -> list[ItemRow]:
    attempts: dict[int, list[Attempt]] = defaultdict(list)
    for attempt in Attempt.objects.filter(item__in=items).defer("trace", "answer").order_by("claim_no", "pk"):
        attempts[attempt.item_id].append(attempt)
    return [item_row(item, tuple(attempts[item.pk]), definition) for item in items]


def sign_of_item(item: WorkItem, *, late: bool = False) -> Sign:
    """The state of an item in words. `late`: where it was skipped, no person did that."""
    state = item.state_name
    if state is ItemState.REFUSED:
        return Sign(state.value, "Stopped", "exhausted")
    return Sign(state.value, "Late") if state is ItemState.SKIPPED and late else Sign(state.value)


def item_row(item: WorkItem, attempts: tuple[Attempt, ...], definition: Workflow | None) -> ItemRow:
    """One item with its attempts, oldest first."""
    took = [a.ended_at - a.started_at for a in attempts]
    return ItemRow(
        item=item,
        step=words.stage_title(definition, item.stage.name),
        name=f"item {item.key}" if item.stage.kind == StageKind.EACH else "",
        sign=sign_of_item(item),
        attempts=attempts,
        spent=sum((Spent(a.cost, a.unpriced, a.tokens_in, a.tokens_out) for a in attempts), NOTHING),
        took=sum(took, timedelta()) if took else None,
    )


def _costs(job: Job, uses: Sequence[StageUse]) -> Costs:
    line = spent_by(job, uses)
    whole = line.total.cost or Decimal(1)
    kept, failed, refused = (of.cost / whole * 300 for of in (line.kept, line.failed, line.refused))
    return Costs(
        line=line,
        failed_attempts=sum(u.attempts for u in uses if not u.gave_result),
        kept_width=f"{kept:.1f}",
        failed_width=f"{failed:.1f}",
        refused_width=f"{refused:.1f}",
        refused_x=f"{kept + failed:.1f}",
    )


def _took(figures: Iterable[Figures]) -> timedelta | None:
    found = [f for f in figures if f.began and f.ended]
    if not found:
        return None
    return max(f.ended for f in found if f.ended) - min(f.began for f in found if f.began)
