"""Views of the queue: those that everybody has, one's own, and those that others share."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Q

from reconciliation.models import SavedView
from reconciliation.narrowing import KEY_ENDS, LATE, ME, NOBODY, SOON, Narrowing, faults_of


@dataclass(frozen=True, slots=True)
class View:
    """One view. `query` is what stands in its address; `by` who shares it, "" for one's own and everybody's."""

    name: str
    query: str
    by: str = ""
    here: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """A saved view on the page where they are changed. `faults`: what of it means nothing (any more)."""

    view: SavedView
    query: str
    mine: bool
    faults: list[str]


EVERYBODYS = (
    ("Mine", Narrowing(owner=ME)),
    ("Nobody’s", Narrowing(owner=NOBODY)),
    ("Late", Narrowing(due=LATE)),
    ("Due within 4 h", Narrowing(due=SOON)),
    ("Key ends within 8 h", Narrowing(due=KEY_ENDS)),
)


def views(chosen: Narrowing, person_id: int) -> list[View]:
    """What the queue offers above its tabs. One query."""
    found = [View(name, urlencode(n.asked()), here=n == chosen) for name, n in EVERYBODYS]
    for view in _saved(person_id):
        kept = Narrowing.read(view.asked)
        by = "" if view.person_id == person_id else view.person.username
        found.append(View(view.name, urlencode(kept.asked()), by, here=kept == chosen))
    return found


def kept_views(person_id: int) -> list[Kept]:
    """One's own and those that are shared, with what is wrong with them. Up to four queries a view."""
    found = []
    for view in _saved(person_id):
        chosen = Narrowing.read(view.asked)
        gone = sorted(set(view.asked) - set(chosen.asked()))
        faults = [
            f"“{name}” is nothing that a queue is narrowed by (any more)." for name in gone
        ] + faults_of(chosen)
        found.append(Kept(view, urlencode(chosen.asked()), view.person_id == person_id, faults))
    return found


def _saved(person_id: int) -> list[SavedView]:
    rows = SavedView.objects.filter(Q(person=person_id) | Q(shared_at__isnull=False)).select_related("person")
    return list(rows.order_by("name", "pk")[:100])
