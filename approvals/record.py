"""What a person has decided, newest first, and what became of each. Needs a tenant's scope."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.db.models import Exists, OuterRef, Q

from approvals.closing import HOW
from approvals.models import Closing, Decision, DecisionVoid, Verdict

PAGE = 50
DID = {
    Verdict.APPROVE.value: "Approved",
    Verdict.REJECT.value: "Rejected",
    Verdict.REQUEST_CHANGES.value: "Asked for changes",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One decision. `became`: what became of the proposal where it was never sent; otherwise the job's state tells."""

    decision_id: int
    proposal_id: int
    label: str
    title: str
    recipient: str
    amount: Decimal | None
    currency: str
    did: str
    lent_by: str
    decided_at: datetime
    void: bool
    became: str
    job_id: int
    job_label: str
    job_state: str


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and the decision that the next page starts behind; 0 at the end."""

    rows: list[Row]
    next_after: int


def my_decisions(person_id: int, *, after: int = 0, limit: int = PAGE) -> Page:
    """One page of everything that a person has decided, with their own or lent authority."""
    voids = DecisionVoid.objects.filter(decision=OuterRef("pk"))
    query = Decision.objects.filter(person_id=person_id).annotate(voided=Exists(voids))
    query = query.select_related("proposal", "proposal__job", "on_behalf_of")
    query = query.defer("proposal__document", "proposal__job__input")
    if after:
        query = query.filter(Q(pk__lt=after))
    found = list(query.order_by("-pk")[: limit + 1])
    more = found[limit - 1].pk if len(found) > limit else 0
    return Page([_row(decision, decision.voided) for decision in found[:limit]], more)


def _row(decision: Decision, voided: bool) -> Row:
    proposal, job = decision.proposal, decision.proposal.job
    return Row(
        decision_id=decision.pk,
        proposal_id=proposal.pk,
        label=proposal.label,
        title=proposal.title,
        recipient=proposal.recipient,
        amount=None if proposal.amount is None else proposal.amount.normalize(),
        currency=proposal.currency,
        did=DID[decision.verdict],
        lent_by=decision.on_behalf_of.username if decision.on_behalf_of else "",
        decided_at=decision.decided_at,
        void=voided,
        became=_became(proposal.closing, decision.verdict),
        job_id=job.pk,
        job_label=job.label,
        job_state=job.state,
    )


def _became(closing: str, verdict: str) -> str:
    """Where nothing was sent under this proposal, how it ended; a refusal needs no telling, since it was one's own."""
    if not closing or closing == Closing.SENT or verdict != Verdict.APPROVE:
        return ""
    return HOW[Closing(closing)]
