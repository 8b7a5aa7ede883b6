"""What all approvals of a policy may add up to, over days, to a recipient, by an approver: read, reserved, released.

A reservation is made in the transaction that completes an approval, behind a lock of its policy's name, so that two
proposals that are approved together cannot both fit into what only one of them fits into.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

from django.db import connection
from django.db.models import Exists, Min, OuterRef, Q

from access.models import Tenant
from access.statements import Values
from access.tenancy import require_scope
from approvals.blocking import key_of
from approvals.models import Decision, DecisionVoid, Proposal, Reservation, Verdict
from approvals.objections import OverSum
from approvals.ruleset import RuleSet, SumLimit, convert
from workflows import hooks
from workflows.models import Job


@dataclass(frozen=True, slots=True)
class Taken:
    """What is reserved under one policy's name, in the order in which it was reserved. `day`: the tenant's, on which
    windows end: today, or for what is reserved already the day that it is reserved for."""

    day: date
    rows: tuple[Held, ...] = ()


@dataclass(frozen=True, slots=True)
class Held:
    """One reservation."""

    day: date
    recipient: str
    proposal_id: int
    amount: Decimal
    currency: str
    approvers: frozenset[int] = field(default_factory=frozenset)
    """Whose authority was used."""


def tenant_zone() -> ZoneInfo:
    """The time zone of the scope's tenant."""
    ((zone,),) = _ZONE.all(require_scope())
    return ZoneInfo(zone)


_ZONE = Values(lambda tenant: Tenant.objects.filter(pk=tenant).values_list("time_zone"))


def lock_sums(policy_name: str) -> None:
    """Queue behind everybody who adds to the sums of this policy, until the transaction ends. After the proposal's lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))",
            [f"counterfoil sums {require_scope()} {policy_name}"],
        )


def today(now: datetime) -> date:
    """The tenant's day."""
    return now.astimezone(tenant_zone()).date()


def taken_for(
    rulesets: Mapping[str, Sequence[RuleSet]], now: datetime, holding: Sequence[int] = ()
) -> dict[str, Taken]:
    """By policy name: what is reserved inside its longest window. No query where no policy has sums.

    `holding`: proposals that may have reserved something themselves; the windows of their own days are read, too.
    """
    days = {name: max((s.days for r in rules for s in r.sums), default=0) for name, rules in rulesets.items()}
    asked = {name: number for name, number in days.items() if number}
    if not asked:
        return {name: Taken(now.date()) for name in rulesets}
    this_day, own = today(now), _own_days(holding)
    windows = Q()
    for name, number in asked.items():
        ends = min(this_day, own.get(name, this_day))
        windows |= Q(policy_name=name, day__gt=ends - timedelta(days=number))
    held = list(Reservation.objects.filter(windows, released_at__isnull=True).order_by("pk"))
    by_approver = any(s.per == "approver" for rules in rulesets.values() for r in rules for s in r.sums)
    approvers = _approvers([h.proposal_id for h in held]) if by_approver else {}
    found: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        whose = frozenset(approvers.get(one.proposal_id, ()))
        found[one.policy_name].append(
            Held(one.day, one.recipient, one.proposal_id, one.amount, one.currency, whose)
        )
    return {name: Taken(this_day, tuple(found[name])) for name in rulesets}


def over_sums(
    amounts: Sequence[tuple[Decimal, str]],
    rulesets: Iterable[RuleSet],
    taken: Taken,
    *,
    recipient: str,
    approver_id: int = 0,
) -> OverSum | None:
    """Why a proposal's amounts do not fit beside what is reserved by others, or None."""
    own = _per_currency(amounts)
    for rules in rulesets:
        for limit in rules.sums:
            over = _over(limit, rules, own, taken, recipient, approver_id)
            if over is not None:
                return over
    return None


def reserve(proposal: Proposal, amounts: Sequence[tuple[Decimal, str]], day: date, now: datetime) -> None:
    """Note what an approved proposal takes; the caller holds `lock_sums`. Nothing where it has no amount.

    `day`: the one that it was compared with. A request may have begun before midnight and have its lock after it.
    """
    Reservation.objects.bulk_create(
        Reservation(
            tenant_id=proposal.tenant_id,
            proposal=proposal,
            policy_name=proposal.policy.name,
            recipient=proposal.recipient,
            amount=amount,
            currency=currency,
            day=day,
            reserved_at=now,
        )
        for currency, amount in sorted(_per_currency(amounts).items())
    )


def release(proposal_id: int, why: str, now: datetime) -> None:
    """Give back what a proposal took. A repeat changes nothing."""
    Reservation.objects.filter(proposal_id=proposal_id, released_at__isnull=True).update(
        released_at=now, released_why=why[:200]
    )


def release_where_nothing_stands(job: Job, now: datetime) -> None:
    """Give back what the proposals of a locked job took, where nothing that they did stands, or may stand."""
    held = Reservation.objects.filter(proposal__job=job, released_at__isnull=True)
    if held.exists() and not hooks.effect_stands(job):
        ids = list(held.values_list("pk", flat=True))
        Reservation.objects.filter(pk__in=ids).update(
            released_at=now, released_why="nothing of it was applied"
        )


def take_again(proposal_id: int, now: datetime) -> None:
    """Take once more, on its own day, what a proposal had given back: it turned out to be applied. A repeat changes nothing."""
    rows = Reservation.objects.filter(proposal_id=proposal_id).order_by("pk")
    last = {row.currency: row for row in rows}
    for row in last.values():
        if row.released_at is not None:
            row.pk, row.released_at, row.released_why, row.reserved_at = None, None, "", now
            row.save(force_insert=True)


def without(taken: Taken, proposal_id: int) -> Taken:
    """What others have reserved: before the proposal's own reservation and for its day where it has one, since sums are
    used up in order, and everything where it has none yet."""
    for place, held in enumerate(taken.rows):
        if held.proposal_id == proposal_id:
            return Taken(held.day, taken.rows[:place])
    return taken


def holds(taken: Taken, proposal_id: int) -> bool:
    """Whether the proposal has reserved what it takes."""
    return any(held.proposal_id == proposal_id for held in taken.rows)


def _over(
    limit: SumLimit,
    rules: RuleSet,
    own: dict[str, Decimal],
    taken: Taken,
    recipient: str,
    approver_id: int,
) -> OverSum | None:
    since = taken.day - timedelta(days=limit.days - 1)
    counted = [
        (h.amount, h.currency)
        for h in taken.rows
        if h.day >= since and _concerns(limit, h, recipient, approver_id)
    ]
    total = Decimal(0)
    for amount, currency in [*counted, *((a, c) for c, a in own.items())]:
        converted = convert(amount, currency, limit.currency, rules.rates)
        if converted is None:
            return OverSum(
                f"The policy adds up in {limit.currency} and names no rate for {currency}: they are never added together."
            )
        total += converted
    if total <= limit.amount:
        return None
    return OverSum(
        f"With this, {_WHAT[limit.per]} {_window(limit.days)} would be {total:,.2f} {limit.currency};"
        f" the policy allows {limit.amount:,.2f} {limit.currency}."
    )


_WHAT = {
    "policy": "what is approved under this policy",
    "recipient": "what this recipient gets",
    "approver": "what this person approves",
}


def _window(days: int) -> str:
    return "today" if days == 1 else f"in {days} days"


def _concerns(limit: SumLimit, held: Held, recipient: str, approver_id: int) -> bool:
    if limit.per == "recipient":
        return key_of(held.recipient) == key_of(recipient)
    return limit.per == "policy" or approver_id in held.approvers


def _per_currency(amounts: Sequence[tuple[Decimal, str]]) -> dict[str, Decimal]:
    """By currency the largest that limits are compared with: an amount and the sum of its operations are not two."""
    found: dict[str, Decimal] = {}
    for amount, currency in amounts:
        found[currency] = max(found.get(currency, Decimal(0)), abs(amount))
    return found


def _own_days(proposal_ids: Sequence[int]) -> dict[str, date]:
    """By policy name the earliest day for which one of these has something reserved. No query without any."""
    if not proposal_ids:
        return {}
    own = Reservation.objects.filter(proposal__in=proposal_ids, released_at__isnull=True)
    return dict(own.values_list("policy_name").annotate(first=Min("day")).order_by("policy_name"))


def _approvers(proposal_ids: Sequence[int]) -> dict[int, set[int]]:
    voids = DecisionVoid.objects.filter(decision=OuterRef("pk"))
    rows = Decision.objects.filter(~Exists(voids), proposal__in=proposal_ids, verdict=Verdict.APPROVE)
    found: dict[int, set[int]] = defaultdict(set)
    for proposal_id, person_id, principal_id in rows.values_list(
        "proposal_id", "person_id", "on_behalf_of_id"
    ):
        found[proposal_id].add(principal_id or person_id)
    return found
