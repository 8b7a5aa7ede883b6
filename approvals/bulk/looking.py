"""A selection as its page shows it: what can be decided together, what not and why, sums, the largest, and what stands out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from statistics import median

from django.db.models import Q

from approvals.closing import how_it_closed
from approvals.facts import facts_for
from approvals.models import Chosen, ChosenState, Proposal, Selection, Verdict
from approvals.rules import Facts

COMPARED = 100
FEWEST = 5
TIMES = 5
MARKS = {
    ChosenState.WAITING: ("pending", "Not yet"),
    ChosenState.DONE: ("done", "Decided"),
    ChosenState.REFUSED: ("no", "Refused"),
    ChosenState.LEFT: ("cancelled", "Left"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One of the selection. `why_not` and `why_not_reject` are empty where it can be decided so; `odd` says what stands out."""

    chosen: Chosen
    proposal: Proposal
    changed: str
    why_not: str
    why_not_reject: str
    odd: str
    mark: str
    words: str


@dataclass(frozen=True, slots=True)
class Sum:
    """What can be approved adds up to, in one currency, and the largest of it."""

    currency: str
    total: Decimal
    count: int
    largest: Row


@dataclass(frozen=True, slots=True)
class Look:
    """The page of one selection."""

    selection: Selection
    rows: list[Row]
    approve: list[Row]
    reject: list[Row]
    changed: list[Row]
    others: list[Row]
    sums: list[Sum]
    without_amount: int
    odd: int
    password_why: str
    waiting: int
    done: int
    refused: int


def look(selection: Selection, now: datetime) -> Look:
    """The page of a selection at this moment. A number of queries that does not depend on its size."""
    query = Chosen.objects.filter(selection=selection).select_related(
        "proposal__policy", "proposal__job", "proposal__initiator"
    )
    chosen = list(query.defer("proposal__document", "proposal__job__input").order_by("ordinal"))
    facts = facts_for([c.proposal for c in chosen])
    usual = {} if selection.confirmed_at else _usual({c.proposal.policy.name for c in chosen})
    rows = [_row(c, facts[c.proposal_id], usual, selection, now) for c in chosen]
    approve = [r for r in rows if not r.changed and not r.why_not]
    asking = (facts[r.proposal.pk].password_why for r in approve)
    return Look(
        selection=selection,
        rows=rows,
        approve=approve,
        reject=[r for r in rows if not r.changed and not r.why_not_reject],
        changed=[r for r in rows if r.changed],
        others=[r for r in rows if not r.changed and r.why_not],
        sums=_sums(approve),
        without_amount=sum(r.proposal.amount is None for r in approve),
        odd=sum(bool(r.odd) for r in approve),
        password_why=next(filter(None, asking), ""),
        waiting=_count(rows, ChosenState.WAITING),
        done=_count(rows, ChosenState.DONE),
        refused=_count(rows, ChosenState.REFUSED),
    )


def _row(
    chosen: Chosen,
    facts: Facts,
    usual: dict[tuple[str, str], tuple[Decimal, int]],
    selection: Selection,
    now: datetime,
) -> Row:
    proposal, state = chosen.proposal, ChosenState(chosen.state)
    mark, words = MARKS[state]
    return Row(
        chosen=chosen,
        proposal=proposal,
        changed=_changed(chosen, proposal, now),
        why_not=_why_not(facts, selection.person_id, Verdict.APPROVE),
        why_not_reject=_why_not(facts, selection.person_id, Verdict.REJECT),
        odd=_odd(proposal, usual),
        mark=mark,
        words=words,
    )


def _changed(chosen: Chosen, proposal: Proposal, now: datetime) -> str:
    """What happened to it since it was chosen, or empty."""
    if proposal.closed_at is not None:
        return how_it_closed(proposal)
    if proposal.approved_at is not None:
        return "It was approved meanwhile."
    if chosen.digest != proposal.digest:
        return "The digest that was in the list is not the proposal's."
    return "Its time is over." if now >= proposal.expires_at else ""


def _why_not(facts: Facts, person_id: int, verdict: str) -> str:
    if facts.own(person_id) is not None:
        return "You have decided this"
    objection = facts.objection(person_id, verdict)
    if objection is not None:
        return objection.short
    return "" if facts.bulk else "Its policy wants each decided by itself"


def _usual(names: Iterable[str]) -> dict[tuple[str, str], tuple[Decimal, int]]:
    """By policy and currency: the median of the last hundred approvals, and of how many it is."""
    approved = Proposal.objects.filter(~Q(currency=""), amount__isnull=False, approved_at__isnull=False)
    found: dict[tuple[str, str], list[Decimal]] = defaultdict(list)
    for name in sorted(names):
        latest = approved.filter(policy__name=name).order_by("-pk")[:COMPARED]
        for amount, currency in latest.values_list("amount", "currency"):
            found[name, currency].append(abs(amount or Decimal(0)))
    return {key: (median(values), len(values)) for key, values in found.items() if len(values) >= FEWEST}


def _odd(proposal: Proposal, usual: dict[tuple[str, str], tuple[Decimal, int]]) -> str:
    known = usual.get((proposal.policy.name, proposal.currency))
    if known is None or proposal.amount is None or abs(proposal.amount) <= TIMES * known[0]:
        return ""
    middle, count = known
    return (
        f"More than {TIMES} times the middle of the last {count} approvals under {proposal.policy.name},"
        f" which is {middle:,.2f} {proposal.currency}."
    )


def _sums(rows: Sequence[Row]) -> list[Sum]:
    """Never across currencies."""
    by_currency: dict[str, list[tuple[Decimal, Row]]] = defaultdict(list)
    for row in rows:
        if row.proposal.amount is not None:
            by_currency[row.proposal.currency].append((row.proposal.amount, row))
    return [
        Sum(
            currency,
            sum((a for a, _ in found), Decimal(0)),
            len(found),
            max(found, key=lambda f: abs(f[0]))[1],
        )
        for currency, found in sorted(by_currency.items())
    ]


def _count(rows: Sequence[Row], state: ChosenState) -> int:
    return sum(r.chosen.state == state for r in rows)


def unfinished_of(person_id: int) -> int | None:
    """The person's newest confirmed selection of which something still waits."""
    waiting = Chosen.objects.filter(
        state=ChosenState.WAITING, selection__person=person_id, selection__confirmed_at__isnull=False
    )
    return waiting.order_by("-selection_id").values_list("selection_id", flat=True).first()
