"""The list beside the slip: tabs, groups by expiry, and the way from one proposal to the next."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone

from approvals import queries
from approvals.bulk.looking import unfinished_of
from approvals.moment import Moment
from approvals.queries import AwaitingRow, Counts, Page, Which

PAGE = 50
LABELS = {Which.FOR_ME: "For me", Which.EVERYONE: "Everyone", Which.SIGNED_TODAY: "Signed today"}
DID = {"approve": "You signed", "reject": "You rejected", "request changes": "You asked for changes"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the list a person is: a tab, and where its page starts. Every link of the room carries it on."""

    slug: str
    which: Which
    after: str = ""

    @property
    def query(self) -> str:
        """ "?tab=…&after=…", or nothing at the beginning of the first tab."""
        chosen = {
            "tab": "" if self.which is Which.FOR_ME else self.which.value,
            "after": self.after,
        }
        text = urlencode({name: value for name, value in chosen.items() if value})
        return f"?{text}" if text else ""

    @property
    def url(self) -> str:
        return reverse("approvals", args=[self.slug]) + self.query

    def of(self, name: str, proposal_id: int, **more: str) -> str:
        """The address of something of one proposal, with this place kept."""
        joint = "&" if self.query else "?"
        return (
            reverse(name, args=[self.slug, proposal_id])
            + self.query
            + (joint + urlencode(more) if more else "")
        )


@dataclass(frozen=True, slots=True)
class Tab:
    label: str
    count: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class Line:
    """One row and where it leads. `did` is what the person said, on the tab of what they decided."""

    row: AwaitingRow
    url: str
    current: bool
    did: str


@dataclass(frozen=True, slots=True)
class Group:
    title: str
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Inbox:
    """What the list shows. `at` is where the open proposal stands in it, from 1; 0 when it is not on this page."""

    place: Place
    open_id: int
    tabs: list[Tab]
    groups: list[Group]
    first_url: str
    next_page_url: str
    counts: Counts
    size: int
    unfinished: bool
    """Looking stopped at many that are for others: below it goes on."""
    at: int
    may_choose: bool
    """Whether the person decides, and something here may be decided together."""
    unfinished_bulk: int | None
    """The newest selection that the person confirmed and of which something still waits."""
    previous_url: str
    next_url: str

    @property
    def signed(self) -> bool:
        return self.place.which is Which.SIGNED_TODAY

    @property
    def poll_url(self) -> str:
        """The address that the list asks again, knowing which proposal is open."""
        joint = "&" if self.place.query else "?"
        return f"{self.place.url}{joint}part=rows&open={self.open_id}"


def place_of(slug: str, tab: str, after: str) -> Place:
    """A place from what stands in an address; what is no tab is the first one."""
    which = Which(tab) if tab in list(Which) else Which.FOR_ME
    return Place(slug, which, after[:40])


def inbox(
    place: Place, *, person_id: int, now: datetime, open_id: int = 0, may_choose: bool = False
) -> Inbox:
    """One page of one tab for a person. Needs a tenant's scope."""
    moment = Moment()
    if place.which is not Which.FOR_ME:
        queries.look_ahead(person_id, now, moment)
    page = queries.awaiting(
        person_id=person_id, which=place.which, now=now, after=place.after, limit=PAGE, moment=moment
    )
    known = _known(place, page, now)
    counts = queries.counts(person_id=person_id, now=now, known=known, counted=page.counted, moment=moment)
    ids = [r.proposal_id for r in page.rows]
    at = ids.index(open_id) + 1 if open_id in ids else 0
    urls = [place.of("approval", pk) for pk in ids]
    return Inbox(
        place=place,
        open_id=open_id,
        tabs=_tabs(place, counts),
        groups=_groups(place, page, now, open_id),
        first_url=urls[0] if urls else "",
        next_page_url=Place(place.slug, place.which, page.next_after).url if page.next_after else "",
        counts=counts,
        size=len(ids),
        unfinished=page.unfinished,
        at=at,
        may_choose=may_choose and place.which is not Which.SIGNED_TODAY and any(r.bulk for r in page.rows),
        unfinished_bulk=unfinished_of(person_id) if may_choose else None,
        previous_url=urls[at - 2] if at > 1 else "",
        next_url=urls[at] if 0 < at < len(urls) else "",
    )


def next_for(*, person_id: int, now: datetime, expires_at: datetime, proposal_id: int) -> int | None:
    """The proposal to look at after this one: the next that the person can decide, else the first of them."""
    for after in (queries.cursor_of(expires_at, proposal_id), ""):
        found = queries.awaiting(person_id=person_id, which=Which.FOR_ME, now=now, after=after, limit=1)
        for row in found.rows:
            if row.proposal_id != proposal_id:
                return row.proposal_id
    return None


def left_words(count: int) -> str:
    """ "6 left." after a decision."""
    if count >= queries.COUNTED_UP_TO:
        return f"{queries.COUNTED_UP_TO - 1}+ left."
    return f"{count} left." if count else "Nothing else waits for you."


def _known(place: Place, page: Page, now: datetime) -> dict[Which, int]:
    """What a tab that fits on one page tells of the figures: its own, and Everyone also that of For me."""
    if place.after or (page.next_after and place.which is not Which.FOR_ME):
        return {}
    known = {place.which: page.found}
    if place.which is Which.EVERYONE:
        known[Which.FOR_ME] = sum(not r.why_not and r.expires_at > now for r in page.rows)
    return known


def _tabs(place: Place, counts: Counts) -> list[Tab]:
    figures = {
        Which.FOR_ME: counts.for_me,
        Which.EVERYONE: counts.everyone,
        Which.SIGNED_TODAY: counts.signed_today,
    }
    return [
        Tab(
            label,
            _figure(figures[which], which is not Which.FOR_ME or counts.counted),
            Place(place.slug, which).url,
            which is place.which,
        )
        for which, label in LABELS.items()
    ]


def _figure(count: int, counted: bool) -> str:
    if count >= queries.COUNTED_UP_TO:
        return f"{queries.COUNTED_UP_TO - 1}+"
    return str(count) if counted else f"{count}+"


def _groups(place: Place, page: Page, now: datetime, open_id: int) -> list[Group]:
    groups: list[Group] = []
    for row in page.rows:
        title = "What you decided today" if place.which is Which.SIGNED_TODAY else _when(row.expires_at, now)
        if not groups or groups[-1].title != title:
            groups.append(Group(title, []))
        groups[-1].lines.append(
            Line(
                row=row,
                url=place.of("approval", row.proposal_id),
                current=row.proposal_id == open_id,
                did=DID.get(row.my_verdict, "You withdrew"),
            )
        )
    return groups


def _when(expires_at: datetime, now: datetime) -> str:
    if expires_at <= now:
        return "Past their time"
    day, today = timezone.localtime(expires_at).date(), timezone.localtime(now).date()
    if day == today:
        return "Expire today, soonest first"
    return "Expire tomorrow" if day == today + timedelta(days=1) else "Expire later"
