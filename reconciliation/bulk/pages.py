"""What the pages of bulks show: the latest ones, and one with its counts, its groups and a page of its entries."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Count

from access.roles import Role
from dispatch.fates import Fate, fates_of_jobs
from reconciliation.bulk.verbs import Terms, terms_of
from reconciliation.bulk.working import results_of
from reconciliation.locks import NoSuchBulk
from reconciliation.models import Bulk, BulkEntry, BulkState, EntryState
from reconciliation.tabs import mark_of
from reconciliation.words import standing_words, state_words
from workflows.models import Job
from workflows.titles import in_words, titles, workflow_title

LATEST = 20
PAGE = 50
GROUPS = 12
MARKS = {
    EntryState.WAITING: "pending",
    EntryState.DONE: "done",
    EntryState.REFUSED: "locked",
    EntryState.CHANGED: "held",
    EntryState.FAILED: "no",
    EntryState.LEFT: "cancelled",
}
WORDS = {
    EntryState.WAITING: "Waiting",
    EntryState.DONE: "Done",
    EntryState.REFUSED: "Refused",
    EntryState.CHANGED: "Changed meanwhile",
    EntryState.FAILED: "Failed",
    EntryState.LEFT: "Left",
}


@dataclass(frozen=True, slots=True)
class Tab:
    """The entries that came to one result, and how many."""

    name: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Group:
    """How many of the chosen belong to one workflow and step; for cases, to one receiver and kind."""

    where: str
    what: str
    count: int


@dataclass(frozen=True, slots=True)
class Row:
    """One entry with what it is about."""

    entry: BulkEntry
    step: str
    was: str
    """The kind of a case in words, and its mark; a job's or an item's state has its own."""

    was_mark: str
    words: str
    mark: str
    fates: Sequence[tuple[Fate, int]] = ()
    """What became of the operations of its job by now, in the four words, where the verb stops or undoes something."""


@dataclass(frozen=True, slots=True)
class BulkPage:
    """One bulk. `settled`: how many have their result; `width` is that share of 300."""

    bulk: Bulk
    terms: Terms
    results: dict[str, int]
    settled: int
    width: str
    tabs: Sequence[Tab]
    groups: Sequence[Group]
    chosen_by: Sequence[tuple[str, str]]
    rows: Sequence[Row]
    after: int
    may: bool
    running: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One bulk of the list."""

    bulk: Bulk
    terms: Terms


def latest() -> list[Line]:
    """The bulks that were confirmed last, newest first. One query."""
    rows = Bulk.objects.exclude(state=BulkState.PLANNED).select_related("confirmed_by")
    return [Line(bulk, terms_of(bulk.verb)) for bulk in rows.order_by("-pk")[:LATEST]]


def workflows() -> list[tuple[str, str]]:
    """The workflows that are installed here or that jobs have, by name and as people read them."""
    found = {name: in_words(name) for name in _workflows_of_jobs()} | titles()
    return sorted(found.items(), key=lambda named: named[1].lower())


def bulk_page(bulk_id: int, roles: frozenset[Role], *, show: str = "", after: int = 0) -> BulkPage:
    """One bulk, with the entries after one of a page, all or those that came to `show`. Five queries. NoSuchBulk."""
    names = ("planned_by", "confirmed_by", "stopped_by")
    bulk = Bulk.objects.select_related(*names).filter(pk=bulk_id).first()
    if bulk is None:
        raise NoSuchBulk(f"There is no bulk {bulk_id} here.")
    terms, results = terms_of(bulk.verb), results_of(bulk)
    entries = BulkEntry.objects.filter(bulk=bulk, pk__gt=after).select_related("job", "item__stage", "case")
    if show in results:
        entries = entries.filter(state=show)
    found = list(entries.defer("job__input").order_by("pk")[: PAGE + 1])
    settled = bulk.total - results[EntryState.WAITING]
    return BulkPage(
        bulk=bulk,
        terms=terms,
        results=results,
        settled=settled,
        width=f"{300 * settled / max(bulk.total, 1):.1f}",
        tabs=[Tab("", "All", bulk.total), *(Tab(s, WORDS[s], results[s]) for s in EntryState if results[s])],
        groups=_groups(bulk, terms) if bulk.state == BulkState.PLANNED else (),
        chosen_by=[_in_words(name, value) for name, value in bulk.filters.items()],
        rows=_rows(found[:PAGE], terms),
        after=found[PAGE - 1].pk if len(found) > PAGE else 0,
        may=terms.role in roles,
        running=bulk.state == BulkState.RUNNING,
    )


def _in_words(name: str, value: str) -> tuple[str, str]:
    """What narrows a bulk as people read it."""
    if name == "incident" and value.isdecimal():
        value = f"INC-{int(value):04d}"
    if name == "job" and value.isdecimal():
        value = f"JOB-{value}"
    if name == "state":
        value = standing_words(value)
    if name == "workflow":
        value = workflow_title(value)
    if name == "kind":
        value = state_words(value)
    return name.capitalize(), value


def _rows(entries: Sequence[BulkEntry], terms: Terms) -> list[Row]:
    done = [e.job_id for e in entries if e.state == EntryState.DONE] if terms.tells_fates else []
    fates = fates_of_jobs(done) if done else {}
    # What was stopped before it had an operation has only steps, which do not run.
    without = [Fate.STOPPED]
    return [
        _row(e, Counter(fates.get(e.job_id, without)) if e.job_id in done else Counter()) for e in entries
    ]


def _row(entry: BulkEntry, fates: Counter[Fate]) -> Row:
    step = ""
    if entry.case is not None:
        step = entry.case.label
    elif entry.item is not None:
        step = f"{entry.item.stage.name} {entry.item.key}"
    state = EntryState(entry.state)
    told = [(fate, fates[fate]) for fate in Fate if fates[fate]]
    was, mark = "", ""
    if entry.case is not None:
        was, mark = state_words(entry.seen_state), mark_of(entry.seen_state)
    return Row(entry, step, was, mark, WORDS[state], MARKS[state], told)


def _groups(bulk: Bulk, terms: Terms) -> list[Group]:
    where, what = "job__workflow", "item__stage__name"
    if terms.cases is not None:
        where, what = "case__receiver__title", "case__kind"
    counted = BulkEntry.objects.filter(bulk=bulk).values_list(where, what).annotate(n=Count("pk"))
    names, said = (str, state_words) if terms.cases is not None else (workflow_title, str)
    return [
        Group(names(a or ""), said(b or ""), n) for a, b, n in counted.order_by("-n", where, what)[:GROUPS]
    ]


def _workflows_of_jobs() -> list[str]:
    return list(Job.objects.order_by("workflow").values_list("workflow", flat=True).distinct())
