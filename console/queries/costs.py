"""What calls to models cost: the last day on the home page, and any range on the page of costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.utils import timezone

from console.queries.day import last_hours
from workflows.costs.spent import NOTHING, Line, spending
from workflows.titles import workflow_title

HEIGHT, MOST_DAYS = 96, 400
SHORTCUTS = (("Today", 1), ("7 days", 7), ("30 days", 30), ("90 days", 90))


@dataclass(frozen=True, slots=True)
class Row:
    """One workflow, route or day. The numbers are places in a bar of 100, to scale with the dearest row."""

    name: str
    line: Line
    kept_width: str
    failed_width: str
    refused_x: str
    refused_width: str
    vain_width: str


@dataclass(frozen=True, slots=True)
class Sum:
    """Rows, dearest first, with their sum."""

    rows: tuple[Row, ...]
    total: Line

    @property
    def vain_share(self) -> int:
        """Of a hundred, how many went to work that failed or was refused."""
        whole = self.total.total.cost
        return round(self.total.in_vain.cost / whole * 100) if whole else 0

    @property
    def vain_outweighs(self) -> bool:
        """Whether work that failed or was refused cost more than what was kept."""
        return self.total.in_vain.cost > self.total.kept.cost


@dataclass(frozen=True, slots=True)
class Range:
    """Days from one to another, both included."""

    since: date
    until: date
    wrong: str = ""

    @property
    def days(self) -> int:
        return (self.until - self.since).days + 1


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars a day, oldest first: paths by fate in a drawing of `width` by 96."""

    width: int
    top: Decimal
    half: Decimal
    kept: str
    failed: str
    refused: str


def last_day(now: datetime) -> Sum:
    """By workflow, in the last 24 hours. One query."""
    hour = last_hours(now)[0]
    since = timezone.localtime(hour).date()
    lines = spending(since=since, until=since + timedelta(days=2), from_hour=hour, by=("workflow",))
    return _sum(lines, workflow_title)


def chosen_range(given: dict[str, str], today: date) -> Range:
    """The range that a query asks for; the last 30 days where it asks for none or for what cannot be."""
    usual = Range(today - timedelta(days=29), today)
    try:
        since = date.fromisoformat(given["since"]) if given.get("since") else usual.since
        until = date.fromisoformat(given["until"]) if given.get("until") else usual.until
    except ValueError:
        return Range(usual.since, usual.until, "Write days as 2026-03-01. Shown are the last 30.")
    if since > until:
        return Range(usual.since, usual.until, "The first day is later than the last. Shown are the last 30.")
    if (until - since).days >= MOST_DAYS:
        return Range(
            until - timedelta(days=MOST_DAYS - 1), until, f"At most {MOST_DAYS} days are shown at once."
        )
    return Range(since, until)


def by_workflow(days: Range) -> Sum:
    return _sum(spending(since=days.since, until=days.until, by=("workflow",)), workflow_title)


def by_route(days: Range) -> Sum:
    return _sum(spending(since=days.since, until=days.until, by=("route",)), str)


def by_day(days: Range) -> list[Line]:
    """Days on which something was spent, oldest first."""
    return spending(since=days.since, until=days.until, by=("day",))


def draw(lines: Sequence[Line], days: Range) -> Chart | None:
    """A bar for every day of the range, empty ones too; None where nothing of known cost was spent."""
    top = max((line.total.cost for line in lines), default=Decimal(0))
    if not top:
        return None
    paths: dict[str, list[str]] = {"kept": [], "failed": [], "refused": []}
    for line in lines:
        left, base = (line.key[0] - days.since).days * 10 + 1, Decimal(0)
        for fate, path in paths.items():
            high = getattr(line, fate).cost / top * HEIGHT
            if high:
                path.append(f"M{left} {HEIGHT - base:.2f}h8v-{high:.2f}h-8z")
                base += high
    return Chart(days.days * 10, top, top / 2, **{fate: "".join(path) for fate, path in paths.items()})


def _sum(lines: Sequence[Line], name: Any) -> Sum:
    dearest = max((line.total.cost for line in lines), default=Decimal(0)) or Decimal(1)
    ordered = sorted(lines, key=lambda line: (-line.total.cost, -line.total.unpriced, line.key))
    return Sum(tuple(_row(line, name(line.key[0]), dearest) for line in ordered), add_up(lines))


def add_up(lines: Sequence[Line]) -> Line:
    """All of them as one."""
    return Line(
        (),
        kept=sum((line.kept for line in lines), NOTHING),
        failed=sum((line.failed for line in lines), NOTHING),
        refused=sum((line.refused for line in lines), NOTHING),
    )


def _row(line: Line, name: str, dearest: Decimal) -> Row:
    kept, failed, refused = (of.cost / dearest * 100 for of in (line.kept, line.failed, line.refused))
    return Row(
        name=name,
        line=line,
        kept_width=f"{kept:.1f}",
        failed_width=f"{failed:.1f}",
        refused_x=f"{kept + failed:.1f}",
        refused_width=f"{refused:.1f}",
        vain_width=f"{failed + refused:.1f}",
    )
