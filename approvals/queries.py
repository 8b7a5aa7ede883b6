"""The list of what awaits approval, for one person. Needs a tenant's scope; the slip itself is in `slips.py`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from zoneinfo import ZoneInfo

from django.db.models import Q, QuerySet

from access import authority
from access.models import Tenant
from access.roles import Role
from access.tenancy import require_scope
from approvals import rules
from approvals.models import Decision, DecisionVoid, Policy, Proposal, Verdict
from workflows import registry
from workflows.models import Job, JournalEntry

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
COUNTED_UP_TO = 100


class Which(StrEnum):
    """The three tabs of the list."""

    FOR_ME = "for-me"  # what this person can decide now
    EVERYONE = "everyone"  # all that awaits approval
    SIGNED_TODAY = "signed-today"  # what this person decided since midnight, whatever became of it


@dataclass(frozen=True, slots=True)
class AwaitingRow:
    """One line of the list. `why_not` is empty when the person may approve it now."""

    proposal_id: int
    job_id: int
    job_label: str
    label: str
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
    my_verdict: str
    closing: str
    job_state: str


@dataclass(frozen=True, slots=True)
class Page:
    """Rows by (expiry, id), and where the next page starts; `next_after` is empty at the end."""

    rows: list[AwaitingRow]
    next_after: str


@dataclass(frozen=True, slots=True)
class Counts:
    """How many stand in each tab, counted up to 100."""

    for_me: int
    everyone: int
    signed_today: int


def awaiting(*, person_id: int, which: Which | str, now: datetime, after: str = "", limit: int = 50) -> Page:
    """One page of a tab, soonest expiry first. An `after` that nobody gave out starts at the beginning."""
    which = Which(which)
    found: list[AwaitingRow] = []
    while len(found) <= limit:
        batch = list(_after(_tab(which, person_id, now), after).order_by("expires_at", "pk")[: limit + 1])
        rows = _rows(batch, person_id)
        found += [r for r in rows if which is not Which.FOR_ME or not r.why_not]
        if len(batch) <= limit:
            break
        after = _cursor(batch[-1].expires_at, batch[-1].pk)
    page = found[:limit]
    more = len(found) > limit
    return Page(rows=page, next_after=_cursor(page[-1].expires_at, page[-1].proposal_id) if more else "")


def counts(*, person_id: int, now: datetime) -> Counts:
    """The figures on the tabs."""
    mine = awaiting(person_id=person_id, which=Which.FOR_ME, now=now, limit=COUNTED_UP_TO)
    others = [_tab(which, person_id, now) for which in (Which.EVERYONE, Which.SIGNED_TODAY)]
    everyone, signed = (query[:COUNTED_UP_TO].count() for query in others)
    return Counts(for_me=len(mine.rows), everyone=everyone, signed_today=signed)


def why_not(person_id: int, proposal: Proposal) -> str:
    """Why this person cannot approve this proposal, in a few words; empty when they can."""
    (row,) = _rows([proposal], person_id)
    return row.why_not


def proposals_of(job_id: int) -> list[Proposal]:
    """Every proposal of a job, newest first, without its document."""
    query = Proposal.objects.filter(job_id=job_id).select_related("policy").defer("document")
    return list(query.order_by("-number"))


def _tab(which: Which, person_id: int, now: datetime) -> QuerySet[Proposal]:
    query = Proposal.objects.select_related("policy", "job", "initiator").defer("document", "job__input")
    if which is Which.SIGNED_TODAY:
        mine = Decision.objects.filter(person_id=person_id, decided_at__gte=_midnight(now))
        return query.filter(pk__in=mine.values("proposal_id"))
    query = query.filter(closed_at__isnull=True, approved_at__isnull=True)
    return query.filter(expires_at__gt=now) if which is Which.FOR_ME else query


def _midnight(now: datetime) -> datetime:
    zone = ZoneInfo(Tenant.objects.values_list("time_zone", flat=True).get(pk=require_scope()))
    return now.astimezone(zone).replace(hour=0, minute=0, second=0, microsecond=0)


def _cursor(expires_at: datetime, pk: int) -> str:
    return f"{(expires_at - EPOCH) // timedelta(microseconds=1)}-{pk}"


def _after(query: QuerySet[Proposal], after: str) -> QuerySet[Proposal]:
    micros, _, pk = after.partition("-")
    if not (micros.isascii() and micros.isdigit() and pk.isascii() and pk.isdigit() and len(after) < 40):
        return query
    try:
        at = EPOCH + timedelta(microseconds=int(micros))
    except OverflowError:
        return query
    return query.filter(Q(expires_at__gt=at) | Q(expires_at=at, pk__gt=min(int(pk), 2**63 - 1)))


def _rows(proposals: Sequence[Proposal], person_id: int) -> list[AwaitingRow]:
    """Lines for a batch, in a number of queries that does not depend on its size."""
    if not proposals:
        return []
    live = _live_decisions(proposals)
    current = _current_policies({p.policy.name for p in proposals})
    contributed = _contributed(proposals, person_id)
    manages = Role.MANAGER in authority.roles_of(person_id)
    managers = {p.pk for p in authority.people_with(Role.MANAGER)}
    found = []
    for proposal in proposals:
        in_force = rules.stricter(proposal.quorum, proposal.policy, current[proposal.policy.name])
        objection = rules.objection_of(
            person_id,
            manages=manages,
            initiator_id=proposal.job.submitted_by_id,
            contributed=frozenset({person_id} if proposal.job_id in contributed else ()),
            amounts=rules.amounts_of(proposal),
            rules=in_force,
        )
        mine = next((d.verdict for d in live[proposal.pk] if d.person_id == person_id), "")
        signed = [d for d in live[proposal.pk] if d.verdict == Verdict.APPROVE and d.person_id in managers]
        reason = "You have signed" if mine else (objection.short if objection else "")
        found.append(_row(proposal, in_force, len(signed), reason, mine, person_id))
    return found


def _row(
    proposal: Proposal, in_force: rules.Rules, approvals: int, reason: str, mine: str, person_id: int
) -> AwaitingRow:
    job = proposal.job
    return AwaitingRow(
        proposal_id=proposal.pk,
        job_id=job.pk,
        job_label=job.label,
        label=proposal.label,
        title=proposal.title,
        recipient=proposal.recipient,
        workflow=job.workflow,
        workflow_title=_workflow_title(job),
        amount=proposal.amount,
        currency=proposal.currency,
        amount_label=proposal.amount_label,
        initiator=proposal.initiator.username,
        started_by_me=job.submitted_by_id == person_id,
        approvals=approvals,
        quorum=in_force.quorum,
        frozen_at=proposal.frozen_at,
        expires_at=proposal.expires_at,
        why_not=reason,
        my_verdict=mine,
        closing=proposal.closing,
        job_state=job.state,
    )


def _workflow_title(job: Job) -> str:
    workflow = registry.workflows().get((job.workflow, job.revision))
    return (workflow.title if workflow else "") or job.workflow


def _live_decisions(proposals: Iterable[Proposal]) -> dict[int, list[Decision]]:
    decisions = Decision.objects.filter(proposal__in=[p.pk for p in proposals])
    voided = set(
        DecisionVoid.objects.filter(decision__proposal__in=[p.pk for p in proposals]).values_list(
            "decision_id", flat=True
        )
    )
    found: dict[int, list[Decision]] = defaultdict(list)
    for decision in decisions.order_by("pk"):
        if decision.pk not in voided:
            found[decision.proposal_id].append(decision)
    return found


def _current_policies(names: set[str]) -> dict[str, Policy]:
    query = Policy.objects.filter(name__in=names).order_by("name", "-revision").distinct("name")
    return {p.name: p for p in query}


def _contributed(proposals: Iterable[Proposal], person_id: int) -> set[int]:
    """The jobs among these in which the person had a hand."""
    rows = JournalEntry.objects.filter(
        job__in=[p.job_id for p in proposals], actor_id=person_id, event__in=rules.CONTRIBUTING
    )
    return set(rows.values_list("job_id", flat=True))
