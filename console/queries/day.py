"""The last 24 hours in figures: jobs that ended, and whether the machine is well."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Max, Min, Q
from django.db.models.functions import Now, TruncHour

from dispatch.models import Receiver
from workflows.health import LATE_SWEEP_SECONDS
from workflows.kinds import NOT_STEPS
from workflows.models import Job, JournalEntry, Worker, WorkItem
from workflows.states import ENDED, ItemState, JobState

DAY = timedelta(hours=24)
LATE_SWEEP = timedelta(seconds=LATE_SWEEP_SECONDS)
LAYERS = (
    (JobState.CONFIRMED, "ok", "confirmed"),
    (JobState.CANCELLED, "idle", "cancelled"),
    (JobState.FAILED, "fail", "failed"),
    (JobState.NEEDS_RECONCILIATION, "doubt", "outcome unknown"),
)
STOPPED_AT_UNKNOWN = ("outcome.unknown", "outcome.conflicted", "outcome.partial")
HEIGHT, STEP, BAR = 96, 16, 13


@dataclass(frozen=True, slots=True)
class Layer:
    """One colour of the bars: its path, its word and its total."""

    css: str
    word: str
    path: str
    total: int


@dataclass(frozen=True, slots=True)
class EndedChart:
    """Bars an hour, oldest first, in a drawing of 384 by 96."""

    layers: tuple[Layer, ...]
    axis: tuple[int, ...]
    hours: tuple[datetime, ...]
    total: int

    @property
    def reading(self) -> str:
        parts = [f"{layer.total:,} {layer.word}" for layer in self.layers if layer.total]
        return ", ".join(parts) or "None ended"


@dataclass(frozen=True, slots=True)
class Health:
    """What the machine is doing, as its own rows say."""

    workers: int
    workers_up: int
    oldest_ready: datetime | None
    backing_off: int
    receivers: int
    paused: tuple[Receiver, ...]
    swept_at: datetime | None
    sweep_is_late: bool

    @property
    def workers_words(self) -> str:
        return f"{self.workers_up} of {self.workers} up"

    @property
    def paused_words(self) -> str:
        return f"{len(self.paused)} of {self.receivers} paused"


def last_hours(now: datetime) -> tuple[datetime, ...]:
    """The last 24 hours, whole ones, this one included."""
    this = now.replace(minute=0, second=0, microsecond=0)
    return tuple(this - timedelta(hours=n) for n in range(23, -1, -1))


def ended(now: datetime) -> EndedChart:
    """Jobs that ended, by hour and outcome, and those that stopped at an unknown outcome and are still there."""
    hours = last_hours(now)
    found: dict[tuple[str, datetime], int] = defaultdict(int)
    for state, hour, count in (
        Job.objects.filter(ended_at__gte=hours[0], state__in=ENDED)
        .annotate(hour=TruncHour("ended_at"))
        .values_list("state", "hour")
        .annotate(n=Count("pk"))
        .order_by()
    ):
        found[state, hour] += count
    for hour, count in (
        JournalEntry.objects.filter(
            event__in=STOPPED_AT_UNKNOWN, at__gte=hours[0], job__state=JobState.NEEDS_RECONCILIATION
        )
        .annotate(hour=TruncHour("at"))
        .values_list("hour")
        .annotate(n=Count("job", distinct=True))
        .order_by()
    ):
        found[JobState.NEEDS_RECONCILIATION.value, hour] += count
    return _draw(hours, found)


def _draw(hours: tuple[datetime, ...], found: dict[tuple[str, datetime], int]) -> EndedChart:
    tallest = max((sum(found[s.value, h] for s, _, _ in LAYERS) for h in hours), default=0)
    top = _round_up(tallest)
    base = [0] * len(hours)
    layers = []
    for state, css, word in LAYERS:
        path = []
        for place, hour in enumerate(hours):
            count = found[state.value, hour]
            if count:
                low, high = base[place] * HEIGHT / top, count * HEIGHT / top
                path.append(f"M{place * STEP + 1.5:.1f} {HEIGHT - low:.1f}h{BAR}v-{high:.1f}h-{BAR}z")
                base[place] += count
        total = sum(found[state.value, h] for h in hours)
        layers.append(Layer(css, word, "".join(path), total))
    axis = (top, top // 2, 0) if top > 1 else (1, 0)
    return EndedChart(tuple(layers), axis, hours, sum(layer.total for layer in layers))


def _round_up(count: int) -> int:
    """The top of the axis: even, so that its half is a whole number too."""
    for top in (2, 4, 10, 20, 40, 60, 80, 100, 200, 400, 1000, 2000, 4000, 10_000):
        if count <= top:
            return top
    return -(-count // 10_000) * 10_000


def health(now: datetime) -> Health:
    """Workers by their leases, the last sweep, the oldest due step of this organisation, paused receivers."""
    here = Q(ended_at__isnull=True)
    # Leases and sweeps are dated by the database's clock, so they are judged by it.
    workers = Worker.objects.aggregate(
        n=Count("pk", filter=here), up=Count("pk", filter=here & Q(lease_until__gt=Now())), swept=Max("swept_at"),
        late=Now() - Max("swept_at"),
    )  # fmt: skip
    steps = WorkItem.objects.exclude(stage__kind__in=NOT_STEPS).filter(lane_id__gt=0)
    open_steps = steps.filter(state__in=[ItemState.READY.number, ItemState.BACKING_OFF.number]).aggregate(
        oldest=Min("stage__opened_at", filter=Q(state=ItemState.READY.number)),
        backing_off=Count("pk", filter=Q(state=ItemState.BACKING_OFF.number)),
    )
    receivers = list(Receiver.objects.order_by("title", "pk"))
    return Health(
        workers=workers["n"],
        workers_up=workers["up"],
        oldest_ready=open_steps["oldest"],
        backing_off=open_steps["backing_off"],
        receivers=len(receivers),
        paused=tuple(r for r in receivers if r.paused_at is not None),
        swept_at=workers["swept"],
        sweep_is_late=workers["late"] is None or workers["late"] > LATE_SWEEP,
    )
