"""How many open cases there are: of each kind of doubt, of each age, late, mine. The numbers beside what can be chosen.

They are of all open cases, those that were put off and those of incidents too, whatever the list is narrowed to.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, Q

from reconciliation.expecting import expected
from reconciliation.models import Case
from reconciliation.narrowing import AGES, GROUPED
from reconciliation.owners import at_work, nobodys
from reconciliation.tabs import EXPECTED, TABS


@dataclass(frozen=True, slots=True)
class ShownTab:
    """A tab with how many open cases it holds; what is expected is no case."""

    name: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """The open cases of one age; `x` is where its share of the bar begins."""

    name: str
    words: str
    count: int
    x: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The open cases of the whole list."""

    total: int
    late: int
    mine: int
    nobodys: int
    snoozed: int
    grouped: int
    tabs: tuple[ShownTab, ...]
    ages: tuple[Bucket, ...]


def counts(person_id: int, *, now: datetime) -> Counts:
    """One query over an index of the open cases, one over who works on them, one over what is expected."""
    sums: Counter[str] = Counter()
    by_kind: Counter[str] = Counter()
    rows = Case.objects.filter(resolved_at__isnull=True).values("kind").order_by("kind")
    for row in rows.annotate(n=Count("kind"), **_figures(person_id, now)):
        by_kind[row["kind"]] += row["n"]
        sums.update({name: number for name, number in row.items() if name != "kind"})
    return Counts(
        total=sums["n"],
        late=sums["late"],
        mine=sums["own"],
        nobodys=sums["free"],
        snoozed=sums["asleep"],
        grouped=sums["grouped"],
        tabs=_tabs(by_kind),
        ages=_ages(sums),
    )


def _figures(person_id: int, now: datetime) -> dict[str, Any]:
    return {
        "late": Count("kind", filter=Q(due_at__lte=now)),
        "own": Count("kind", filter=Q(assignee_id=person_id)),
        "free": Count("kind", filter=nobodys(at_work())),
        "asleep": Count("kind", filter=Q(snoozed_until__gt=now)),
        "grouped": Count("kind", filter=GROUPED),
        **{f"age_{age.name}": Count("kind", filter=age.opened(now)) for age in AGES},
    }


def _tabs(by_kind: Counter[str]) -> tuple[ShownTab, ...]:
    shown = [ShownTab(t.name, t.label, sum(by_kind[k] for k in t.kinds)) for t in TABS]
    shown = [s for s, t in zip(shown, TABS, strict=True) if s.count or t.always]
    return (shown[0], ShownTab(EXPECTED, "Expected", expected().count()), *shown[1:])


def _ages(sums: Counter[str]) -> tuple[Bucket, ...]:
    found, x = [], 0
    for age in AGES:
        count = sums[f"age_{age.name}"]
        if count:
            found.append(Bucket(age.name, age.words, count, x))
        x += count
    return tuple(found)
