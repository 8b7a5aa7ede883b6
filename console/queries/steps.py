"""The steps of one job: stages with their counts, items with their attempts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Max, Min, Sum
from django.db.models.functions import Coalesce

from console import words
from console.queries.fans import Fan, fans_of
from console.queries.standing import Sign
from workflows.authoring import Workflow
from workflows.costs.spent import NOTHING, Line, Spent, StageUse, spent_by, uses_of
from workflows.models import Attempt, Job, Stage, StageKind, WorkItem
from workflows.states import ENDED, STUCK_ITEM_STATES, ItemState

LISTED = 100


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
    """What the items of one stage tell together: how many are in which state, and how they ran."""

    states: dict[int, int]
    attempts: int = 0
    began: datetime | None = None
    ended: datetime | None = None

    @property
    def took(self) -> timedelta | None:
        return self.ended - self.began if self.began and self.ended else None


NO_ITEMS = Figures({})


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
    """Stages, items and attempts of one job. Eight queries at most, none of which reads every attempt."""
    definition = words.definition_of(job.workflow, job.revision)
    stages = list(Stage.objects.filter(job=job).exclude(kind=StageKind.MACHINE).order_by("ordinal", "pk"))
    figures = _figures(job)
    counts = {stage.pk: figures.get(stage.pk, NO_ITEMS).states for stage in stages}
    uses = uses_of(job.pk)
    steps = _steps(job, definition, stages, figures, uses)
    return Work(
        steps=tuple(steps),
        done=sum(1 for s in steps if s.sign.code == "SUCCEEDED"),
        fans=tuple(fans_of(definition, stages, counts)),
        items=tuple(_item_rows(_items(job), definition)),
        items_total=sum(sum(c.values()) for c in counts.values()),
        costs=_costs(job, uses),
        took=_took(figures.values()),
        stopped=sum(c.get(s.number, 0) for c in counts.values() for s in STUCK_ITEM_STATES),
    )


def _figures(job: Job) -> dict[int, Figures]:
    rows = (
        WorkItem.objects.filter(job=job)
        .exclude(stage__kind=StageKind.MACHINE)
        .values_list("stage", "state")
        .annotate(
            n=Count("pk"),
            tried=Sum("attempts"),
            began=Min(Coalesce("first_started_at", "started_at")),
            ended=Max(Coalesce("finished_at", "started_at")),
        )
        .order_by()
    )
    found: dict[int, Figures] = {}
    for stage, state, count, tried, began, ended in rows:
        before = found.get(stage, NO_ITEMS)
        found[stage] = Figures(
            states={**before.states, state: count},
            attempts=before.attempts + tried,
            began=min((t for t in (before.began, began) if t), default=None),
            ended=max((t for t in (before.ended, ended) if t), default=None),
        )
    return found


def _steps(
    job: Job,
    definition: Workflow | None,
    stages: Sequence[Stage],
    figures: dict[int, Figures],
    uses: Sequence[StageUse],
) -> list[Step]:
    steps = []
    for stage in stages:
        row = figures.get(stage.pk, NO_ITEMS)
        used = [u for u in uses if u.stage_id == stage.pk]
        steps.append(
            Step(
                number=stage.ordinal + 1,
                title=words.stage_title(definition, stage.name),
                sign=_stage_sign(job, stage, row.states),
                attempts=row.attempts,
                route=", ".join(sorted({u.route for u in used})),
                took=row.took,
                spent=sum((u.spent for u in used), NOTHING),
                here=stage.closed_at is None and job.state not in ENDED,
                stage_id=stage.pk,
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

    done, total = of(ItemState.SUCCEEDED), sum(counts.values()) or stage.total
    if total and done == total:
        return Sign("SUCCEEDED")
    if total and of(ItemState.COMPENSATED) == total:
        return Sign("COMPENSATED")
    said = f"{done} of {total}" if stage.kind == StageKind.EACH else ""
    for state, few in (
        (ItemState.EXHAUSTED, "stopped"),
        (ItemState.REFUSED, "stopped"),
        (ItemState.BACKING_OFF, "to retry"),
        (ItemState.CANCELLED, "cancelled"),
        (ItemState.COMPENSATED, "undone"),
        (ItemState.RUNNING, "running"),
        (ItemState.READY, "ready"),
    ):
        if of(state):
            if state is ItemState.REFUSED:
                return Sign(
                    state.value,
                    f"{said}, {of(state)} stopped".lstrip(", ") if said else "Stopped",
                    "exhausted",
                )
            held = state is ItemState.READY and job.held_at is not None
            return Sign("HELD" if held else state.value, f"{said}, {of(state)} {few}" if said else "")
    return Sign("WAITING", said)


def _items(job: Job) -> list[WorkItem]:
    """The first hundred items with something to tell, in the order of the steps: not what a fan-out did at once."""
    return list(
        WorkItem.objects.filter(job=job)
        .exclude(stage__kind=StageKind.MACHINE)
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


def item_row(item: WorkItem, attempts: tuple[Attempt, ...], definition: Workflow | None) -> ItemRow:
    """One item with its attempts, oldest first."""
    took = [a.ended_at - a.started_at for a in attempts]
    return ItemRow(
        item=item,
        step=words.stage_title(definition, item.stage.name),
        name=f"item {item.key}" if item.stage.kind == StageKind.EACH else "",
        sign=Sign(
            item.state_name.value,
            "Stopped" if item.state_name is ItemState.REFUSED else "",
            "exhausted" if item.state_name is ItemState.REFUSED else "",
        ),
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
