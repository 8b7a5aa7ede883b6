"""Closing a proposal: written once, in the transaction of whatever closed it. The caller holds job and proposal."""

from __future__ import annotations

from datetime import datetime

from access.statements import Update
from approvals.locks import database_clock
from approvals.models import Closing, Decision, DecisionVoid, Proposal
from approvals.sums import release
from approvals.wording import clock

HOW = {
    Closing.REJECTED: "was rejected",
    Closing.CHANGES_REQUESTED: "was sent back for changes",
    Closing.WITHDRAWN: "was withdrawn by its submitter",
    Closing.EXPIRED: "expired",
    Closing.VOIDED: "was voided",
    Closing.SENT: "is being sent",
    Closing.REPLACED: "was replaced by a newer one",
}


def close(proposal: Proposal, closing: Closing, why: str, now: datetime) -> None:
    """Close an open, locked proposal."""
    changed = _CLOSE(proposal.pk, closed_at=now, closing=closing.value, closing_reason=why[:1000])
    assert changed == 1, "a proposal is closed once"
    proposal.closed_at, proposal.closing, proposal.closing_reason = now, closing.value, why[:1000]
    if closing is not Closing.SENT:
        release(proposal.pk, closing.value, now)


# It is locked and open, and the database refuses to close one twice. Asked for here, that it is open would have the server
# walk the index of open ones, past each that was closed since the last vacuum.
_CLOSE = Update(lambda proposal: Proposal.objects.filter(pk=proposal))


def void(decisions: list[Decision], why: str, by: str, now: datetime) -> None:
    """Have decisions stop counting; a decision that was voided before stays as it was."""
    voided = set(DecisionVoid.objects.filter(decision__in=decisions).values_list("decision_id", flat=True))
    DecisionVoid.objects.bulk_create(
        DecisionVoid(tenant_id=d.tenant_id, decision=d, why=why[:1000], voided_at=now, voided_by=by)
        for d in sorted(decisions, key=lambda d: d.pk)
        if d.pk not in voided
    )


def reopen_to_decisions(proposal: Proposal) -> None:
    """Take the approval's time away again. The job is back in AWAITING_APPROVAL already: the database asks for that."""
    Proposal.objects.filter(pk=proposal.pk).update(approved_at=None)
    proposal.approved_at = None
    release(proposal.pk, "back to its approvers", database_clock())


def how_it_closed(proposal: Proposal) -> str:
    """Who closed it and when, as a sentence for whoever comes too late."""
    if proposal.closed_at is None:
        return ""
    closing = Closing(proposal.closing)
    at = clock(proposal.closed_at, proposal.tenant_id)
    if closing in (Closing.REJECTED, Closing.CHANGES_REQUESTED):
        last = Decision.objects.filter(proposal=proposal).order_by("-decided_at", "-pk").first()
        if last is not None:
            return f"{last.person_name} {DID[last.verdict]} at {clock(last.decided_at, proposal.tenant_id)}: {last.reason}"
    why = f": {proposal.closing_reason}" if proposal.closing_reason else "."
    return f"{proposal.label} {HOW[closing]} at {at}{why}"


DID = {"approve": "approved this", "reject": "rejected this", "request changes": "requested changes"}
