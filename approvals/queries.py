"""The list of what awaits approval, for one person. Needs a tenant's scope; the slip itself is in `slips.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum

from django.db.models import IntegerField, Q, QuerySet, Subquery

from access.models import Tenant
from access.tenancy import require_scope
from approvals.facts import facts_of
from approvals.hints import perhaps_for
from approvals.models import Decision, Proposal
from approvals.moment import Moment
from approvals.rules import Facts
from workflows.titles import workflow_title

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNTED_UP_TO = 100
LOOKED_AT_THEN = 300
"""Of what hints let through, so many are asked about for one page of For me, after the first few were not enough."""


class Which(StrEnum):
    """The three tabs of the list."""

    FOR_ME = "for-me"  # what this person can decide now
    EVERYONE = "everyone"  # all that awaits approval
    SIGNED_TODAY = "signed-today"  # what this person decided since midnight, whatever became of it


@dataclass(frozen=True, slots=True)
class AwaitingRow:
    """One line of the list. `why_not` is empty when the person may approve it now; `bulk`: with others together, too."""

    proposal_id: int
    job_id: int
    job_label: str
    label: str
    digest: str
    title: str
    recipient: str
    workflow: str
    workflow_title: str
    amount: Decimal | None
    currency: str
    amount_label: str
    initiator: str
    started_by_me: bool
    approvals: int
    quorum: int
    frozen_at: datetime
    expires_at: datetime
    why_not: str
    blocked: bool
    my_verdict: str
    closing: str
    job_state: str
    bulk: bool


@dataclass(frozen=True, slots=True)
class Page:
    """Rows by (expiry, id), and where the next page starts; `next_after` is empty at the end.

    `found`: how many there are from its start on, counted up to 100; at least so many where `counted` is False.
    `unfinished`: so many were looked at which are for others that looking stopped before the page was full.
    """

    rows: list[AwaitingRow]
    next_after: str
    found: int = 0
    counted: bool = True
    unfinished: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """How many stand in each tab, counted up to 100. `for_me` are at least so many where it was not `counted`."""

    for_me: int
    everyone: int
    signed_today: int
    counted: bool = True


def awaiting(
    *,
    person_id: int,
    which: Which | str,
    now: datetime,
    after: str = "",
    limit: int = 50,
    moment: Moment | None = None,
) -> Page:
    """One page of a tab, soonest expiry first. An `after` that nobody gave out starts at the beginning."""
    which, moment = Which(which), moment or Moment()
    if which is Which.FOR_ME:
        return _for_me(person_id, now, after, limit, moment)
    query = _after(_tab(which, person_id, now, moment), after).order_by("expires_at", "pk")
    return _cut(_rows(list(query[: limit + 1]), person_id, moment), limit)


def look_ahead(person_id: int, now: datetime, moment: Moment) -> None:
    """Fetch what the figure of For me is told by, so that it is judged together with the page of another tab."""
    query = _perhaps_for_me(person_id, now, moment)
    moment.ahead = [] if query is None else _fetched(query, COUNTED_UP_TO + 1)


def _for_me(person_id: int, now: datetime, after: str, limit: int, moment: Moment) -> Page:
    """What the person can approve: the database leaves out what is surely not for them, the rules are asked of the rest."""
    query = _perhaps_for_me(person_id, now, moment)
    if query is None:
        return Page([], "")
    found: list[AwaitingRow] = []
    # A second look is longer: hints leave out most of what is for others, so whoever needs one has much before them.
    for size in (max(limit + 1, min(10 * limit, COUNTED_UP_TO)), LOOKED_AT_THEN):
        ahead = moment.ahead if not after and size == COUNTED_UP_TO + 1 else None
        batch = _fetched(_after(query, after), size) if ahead is None else ahead
        found += [row for row in _rows(batch, person_id, moment) if not row.why_not]
        if len(batch) < size or len(found) > limit:
            return _cut(found, limit, counted=len(batch) < size)
        after = cursor_of(batch[-1].expires_at, batch[-1].pk)
    return Page(found, after, len(found), counted=False, unfinished=True)


def _perhaps_for_me(person_id: int, now: datetime, moment: Moment) -> QuerySet[Proposal] | None:
    perhaps = perhaps_for(person_id, moment.people, moment.policies, moment.current)
    if perhaps is None:
        return None
    return _tab(Which.FOR_ME, person_id, now, moment).filter(perhaps).order_by("expires_at", "pk")


def _fetched(query: QuerySet[Proposal], size: int) -> list[Proposal]:
    """The first of a query, in its order. Their ids come from the index alone, however many it has to pass over."""
    first = _all_of().filter(pk__in=query.values("pk")[:size])
    return list(first.order_by("expires_at", "pk"))


def _cut(found: list[AwaitingRow], limit: int, *, counted: bool = True) -> Page:
    page = found[:limit]
    more = len(found) > limit
    after = cursor_of(page[-1].expires_at, page[-1].proposal_id) if more else ""
    return Page(page, after, min(len(found), COUNTED_UP_TO), counted)


def counts(
    *,
    person_id: int,
    now: datetime,
    known: Mapping[Which, int] | None = None,
    counted: bool = True,
    moment: Moment | None = None,
) -> Counts:
    """The figures on the tabs; `known` are those that a page in hand has told already, For me as far as it `counted`."""
    figures, moment = dict(known or {}), moment or Moment()
    if Which.FOR_ME not in figures:
        mine = _for_me(person_id, now, "", COUNTED_UP_TO, moment)
        figures[Which.FOR_ME], counted = mine.found, mine.counted
    unknown = [which for which in (Which.EVERYONE, Which.SIGNED_TODAY) if which not in figures]
    figures |= _counted({which: _tab(which, person_id, now, moment) for which in unknown})
    return Counts(
        for_me=figures[Which.FOR_ME],
        everyone=figures[Which.EVERYONE],
        signed_today=figures[Which.SIGNED_TODAY],
        counted=counted or figures[Which.FOR_ME] >= COUNTED_UP_TO,
    )


class _Count(Subquery):
    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()


def _counted(tabs: Mapping[Which, QuerySet[Proposal]]) -> dict[Which, int]:
    """How many stand in each, up to 100, in one query."""
    if not tabs:
        return {}
    figures = [_Count(rows.order_by().values("pk")[:COUNTED_UP_TO]) for rows in tabs.values()]
    (found,) = Tenant.objects.filter(pk=require_scope()).values_list(*figures)
    return dict(zip(tabs, found, strict=True))


def why_not(person_id: int, proposal: Proposal) -> str:
    """Why this person cannot approve this proposal, in a few words; empty when they can."""
    return reason_not_to(facts_of(proposal), person_id)


def proposals_of(job_id: int) -> list[Proposal]:
    """Every proposal of a job, newest first, without its document."""
    query = Proposal.objects.filter(job_id=job_id).select_related("policy").defer("document")
    return list(query.order_by("-number"))


def _tab(which: Which, person_id: int, now: datetime, moment: Moment) -> QuerySet[Proposal]:
    query = _all_of()
    if which is Which.SIGNED_TODAY:
        mine = Decision.objects.filter(person_id=person_id, decided_at__gte=moment.midnight(now))
        return query.filter(pk__in=mine.values("proposal_id"))
    query = query.filter(closed_at__isnull=True, approved_at__isnull=True)
    return query.filter(expires_at__gt=now) if which is Which.FOR_ME else query


def _all_of() -> QuerySet[Proposal]:
    return Proposal.objects.select_related("policy", "job", "initiator").defer("document", "job__input")


def cursor_of(expires_at: datetime, pk: int) -> str:
    """What `awaiting` takes as `after` to go on behind this proposal."""
    return f"{(expires_at - EPOCH) // timedelta(microseconds=1)}-{pk}"


def is_cursor(after: str) -> bool:
    """Whether this could have come from `cursor_of`."""
    return _place(after) is not None


def _after(query: QuerySet[Proposal], after: str) -> QuerySet[Proposal]:
    place = _place(after)
    if place is None:
        return query
    at, pk = place
    return query.filter(Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=pk))


def _place(after: str) -> tuple[datetime, int] | None:
    micros, _, pk = after.partition("-")
    if not (micros.isascii() and micros.isdigit() and pk.isascii() and pk.isdigit() and len(after) < 40):
        return None
    try:
        return EPOCH + timedelta(microseconds=int(micros)), min(int(pk), 2**63 - 1)
    except OverflowError:
        return None


def _rows(proposals: Sequence[Proposal], person_id: int, moment: Moment) -> list[AwaitingRow]:
    """Lines for a batch, in a number of queries that does not depend on its size."""
    if not proposals:
        return []
    facts = moment.facts(proposals)
    return [_row(proposal, facts[proposal.pk], person_id) for proposal in proposals]


def reason_not_to(facts: Facts, person_id: int) -> str:
    """Why this person cannot approve now, in a few words; empty when they can."""
    if facts.own(person_id) is not None:
        return "You have signed"
    objection = facts.objection(person_id)
    return "" if objection is None else objection.short


def _row(proposal: Proposal, facts: Facts, person_id: int) -> AwaitingRow:
    mine = facts.own(person_id)
    job = proposal.job
    return AwaitingRow(
        proposal_id=proposal.pk,
        job_id=job.pk,
        job_label=job.label,
        label=proposal.label,
        digest=proposal.digest,
        title=proposal.title,
        recipient=proposal.recipient,
        workflow=job.workflow,
        workflow_title=workflow_title(job.workflow),
        # The column pads to four decimals; the slip has as many as the currency.
        amount=None if proposal.amount is None else proposal.amount.normalize(),
        currency=proposal.currency,
        amount_label=proposal.amount_label,
        initiator=proposal.initiator.username,
        started_by_me=job.submitted_by_id == person_id,
        approvals=len(facts.valid),
        quorum=facts.quorum,
        frozen_at=proposal.frozen_at,
        expires_at=proposal.expires_at,
        why_not=reason_not_to(facts, person_id),
        blocked=proposal.blocked_at is not None,
        my_verdict=mine.verdict if mine else "",
        closing=proposal.closing,
        job_state=job.state,
        bulk=facts.bulk,
    )
