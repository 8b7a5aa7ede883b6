"""What the room's pages show beyond what the rows say: tabs, marks, the ladder's buttons, the meter of the key's time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q
from django.urls import NoReverseMatch, reverse

from reconciliation.actions.carrying_out import BY_LOOKUP, BY_STATEMENT, SEND_AGAIN, STOP
from reconciliation.asking import BUTTONS, URL_OF
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind
from reconciliation.queries import CasePage
from reconciliation.verbs import Verb
from web.times import WITHIN_THE_DAY

K = CaseKind
METER = 1440
"""The meter's width; an image in front of a figure, so that a unit of it means nothing."""


@dataclass(frozen=True, slots=True)
class Tab:
    """One kind of doubt, as people sort them."""

    name: str
    label: str
    mark: str
    kinds: tuple[CaseKind, ...]


TABS: tuple[Tab, ...] = (
    Tab(
        "unknown",
        "Outcome unknown",
        "unknown",
        (K.UNKNOWN_OUTCOME, K.CONFIRMATION_OVERDUE, K.POSSIBLE_DUPLICATE, K.CONTRADICTED),
    ),
    Tab(
        "differs",
        "Partly applied, answer differs",
        "mixed",
        (K.PARTIAL, K.CONFLICTED, K.KEY_MISMATCH, K.SENT_DIFFERS),
    ),
    Tab("exhausted", "Retry exhausted", "exhausted", (K.RETRY_EXHAUSTED, K.PERMANENT_ERROR)),
    Tab("held", "Held", "held", (K.REVISION_MISSING, K.DEADLINE_PASSED, K.SEND_BLOCKED)),
    Tab(
        "again",
        "Waiting for a new proposal",
        "awaiting",
        (K.PROPOSAL_EXPIRED, K.CHANGES_REQUESTED, K.FACT_CHANGED, K.NO_APPROVER),
    ),
    Tab("effects", "Cancelled with effects", "mixed", (K.CANCELLED_WITH_EFFECT,)),
    Tab("undone", "Not undone", "exhausted", (K.NOT_UNDONE,)),
    Tab("untold", "Not delivered", "exhausted", (K.UNDELIVERABLE,)),
)


_DETAILS: dict[str, tuple[str, dict[str, str]]] = {
    "basis": ("Shown by", {BY_LOOKUP: "the last look-up", BY_STATEMENT: "the receiver’s own words"}),
    "source": ("Found in", {}),
    "receipt_id": ("Receipt", {}),
    "record": ("Record or payee", {}),
    "amount": ("Amount", {}),
    "currency": ("Currency", {}),
    "obtained_from": ("Obtained from", {}),
    "file": ("Document, SHA-256", {}),
    "then": ("Then", {STOP: "closed as not applied, nothing is sent", SEND_AGAIN: "sent again, same key"}),
}


@dataclass(frozen=True, slots=True)
class ShownTab:
    """A tab with how many open cases it holds."""

    name: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Counts:
    """The open cases of the whole list, snoozed ones too."""

    total: int
    late: int
    mine: int
    snoozed: int
    tabs: tuple[ShownTab, ...]


@dataclass(frozen=True, slots=True)
class Rung:
    """One verb with its button."""

    verb: Verb
    words: str
    key: str
    url: str
    first: bool
    """Whether it is the safest of those that are allowed: the one filled button of the page."""

    dialog: bool
    """Whether its form opens over the case."""


@dataclass(frozen=True, slots=True)
class Window:
    """How much is left of the time in which the same key is one effect; `x` and `width` are the meter's."""

    until: datetime
    open: bool
    near: bool
    x: int
    width: int


def tab_named(name: str) -> Tab | None:
    """The tab of an address, or None for all."""
    return next((t for t in TABS if t.name == name), None)


def mark_of(kind: str) -> str:
    """The mark that stands before a kind's words. Plum only where an outcome is unknown."""
    return next((t.mark for t in TABS if kind in t.kinds), "unknown")


def counts(person_id: int, *, now: datetime) -> Counts:
    """How many open cases there are of each kind of doubt. One query."""
    by_kind: Counter[str] = Counter()
    late = mine = snoozed = 0
    rows = Case.objects.filter(resolved_at__isnull=True).values_list("kind").order_by("kind")
    for kind, number, overdue, own, asleep in rows.annotate(
        n=Count("pk"),
        late=Count("pk", filter=Q(due_at__lte=now)),
        own=Count("pk", filter=Q(assignee_id=person_id)),
        asleep=Count("pk", filter=Q(snoozed_until__gt=now)),
    ):
        by_kind[kind] += number
        late, mine, snoozed = late + overdue, mine + own, snoozed + asleep
    tabs = tuple(ShownTab(t.name, t.label, sum(by_kind[k] for k in t.kinds)) for t in TABS)
    return Counts(by_kind.total(), late, mine, snoozed, tabs)


def ladder(page: CasePage, slug: str) -> list[Rung]:
    """The verbs, safest first, each with its button."""
    first = next((v.name for v in page.verbs if v.allowed), None)
    return [
        Rung(
            v,
            *BUTTONS[v.name],
            url=_url_of(v, page, slug),
            first=v.name is first,
            dialog=v.name not in (VerbName.CORRECT, VerbName.MIGRATE),
        )
        for v in page.verbs
    ]


def _url_of(verb: Verb, page: CasePage, slug: str) -> str:
    """A correction has a page of its own, beside what the step was given, and so has a migration: too much for a dialog.
    Steps are run again from the job's page."""
    if verb.name in (VerbName.MIGRATE, VerbName.RUN_AGAIN):
        return link(URL_OF[verb.name], slug, page.job_id)
    if verb.name is VerbName.CORRECT:
        return link(URL_OF[verb.name], slug, page.job_id, page.item_id) if page.item_id else ""
    return reverse(URL_OF[verb.name], args=(slug, page.case_id))


def window(page: CasePage, now: datetime) -> Window | None:
    """The key's time, counted from the first send, or None where there is none or it no longer matters."""
    until = page.resubmit_safe_until
    sent_at = next((k.at for k in page.known if k.name == "Dispatched" and k.at is not None), None)
    if page.resolved or until is None or sent_at is None:
        return None
    left = max((until - now).total_seconds(), 0.0)
    whole = max((until - sent_at).total_seconds(), 1.0)
    width = min(METER, round(METER * left / whole))
    return Window(until, until > now, is_near(until, now), METER - width, width)


def is_near(moment: datetime, now: datetime) -> bool:
    """Whether a duration says more about it than its time of day."""
    return moment - now < WITHIN_THE_DAY


def asked_for(page: CasePage) -> list[tuple[str, str]]:
    """The details of the open request in people's words, in the order of its form."""
    details = page.request.details if page.request else {}
    found = []
    for name, (label, words) in _DETAILS.items():
        if value := details.get(name):
            found.append((label, words.get(value, value)))
    return found


def link(name: str, *args: object) -> str:
    """The address of another room's page, or "" where this installation has no such page."""
    try:
        return reverse(name, args=args)
    except NoReverseMatch:
        return ""
