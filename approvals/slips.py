"""The slip: one proposal as its approver sees it, read from the stored bytes that the digest was made of.

Nothing here is computed from the job, the draft or the workflow again: what is shown is what was frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from access.models import Person
from access.refusals import Conflict
from approvals import canonical
from approvals.aftermath import Earlier, Sent, Twin, earlier_ends, twins_of, what_was_sent
from approvals.closing import how_it_closed
from approvals.differing import Difference, differences
from approvals.document import read
from approvals.facts import facts_of
from approvals.locks import NoSuchProposal
from approvals.models import Closing, Decision, DecisionVoid, Proposal, Verdict
from approvals.queries import reason_not_to
from approvals.rules import Facts, Way
from approvals.standing import CheckResult, checks_of
from approvals.telling import in_a_line
from approvals.timetable import Timetable, timetable
from workflows.states import JobState


@dataclass(frozen=True, slots=True)
class SlipOperation:
    """One operation as it was frozen. `changes` are FieldChange values; `headers` are (name, value)."""

    ordinal: int
    title: str
    action: str
    receiver: str
    contract_version: int
    account: str
    record: str
    independent: bool
    operation_key: str
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: str
    body_encoding: str
    body_digest: str
    amount: Decimal | None
    currency: str
    changes: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class SlipDecision:
    """One signature or refusal, with what made it void if anything did."""

    decision_id: int
    person: str
    signed_for: str
    verdict: str
    decided_at: datetime
    digest: str
    reason: str
    fields: list[str]
    authenticated_by: str
    void: bool
    void_why: str
    voided_at: datetime | None
    mine: bool


@dataclass(frozen=True, slots=True)
class Slip:
    """Everything that the page of one proposal needs. `document` is the whole parsed value beside the named parts."""

    proposal_id: int
    job_id: int
    job_label: str
    job_title: str
    job_state: str
    label: str
    number: int
    title: str
    summary: str
    model_text: str
    model_route: str
    amount: Decimal | None
    currency: str
    amount_label: str
    recipient: str
    sources: list[dict[str, Any]]
    hands: dict[str, Any]
    """How many changes people made on the way, and the latest by name."""
    operations: list[SlipOperation]
    headers_left_out: list[str]
    workflow: str
    workflow_title: str
    revision: str
    reference: str
    initiator: str
    source: str
    policy_name: str
    policy_revision: int
    policy_id: int
    policy_line: str
    """What it asks, in a line; with what today's revision asks where that is another."""
    frozen_at: datetime
    expires_at: datetime
    digest: str
    document: dict[str, Any]
    decisions: list[SlipDecision]
    approvals: int
    quorum: int
    two_because: str
    seats: list[str]
    """Who has to sign still, one a signature: the group that is asked for, or nothing for any manager."""
    signs_for: str
    """Whose authority this person would use, where it is not their own."""
    approved_at: datetime | None
    closing: str
    closed_at: datetime | None
    closed_sentence: str
    checks: list[CheckResult]
    open: bool
    expired: bool
    why_not: str
    password_why: str
    """Why whoever approves this is asked for their password again; empty where nobody is."""
    who_can: list[str]
    can_approve: bool
    can_refuse: bool
    can_withdraw_proposal: bool
    can_withdraw_approval: bool
    previous: Proposal | None
    newer: Proposal | None
    differences: list[Difference]
    sent: list[Sent]
    earlier: list[Earlier]
    twins: list[Twin]
    times: Timetable


class CannotBeShown(Conflict):
    """The stored document is not one that was frozen here: there is nothing that could be shown truly."""


def slip(proposal_id: int, *, person_id: int, now: datetime) -> Slip:
    """The slip of a proposal for one person. Needs a tenant's scope. Raises NoSuchProposal, CannotBeShown."""
    try:
        return _slip(proposal_id, person_id, now)
    except canonical.NotCanonical as broken:
        raise CannotBeShown(
            "What is stored of this proposal is not what was frozen, so it cannot be shown and nobody can sign it."
            " Tell an admin: the journal says which digest it had."
        ) from broken


def _slip(proposal_id: int, person_id: int, now: datetime) -> Slip:
    query = Proposal.objects.select_related("policy", "job", "initiator")
    proposal = query.filter(pk=proposal_id).first()
    if proposal is None:
        raise NoSuchProposal(f"There is no proposal {proposal_id} here.")
    job, value, facts = proposal.job, read(proposal.document), facts_of(proposal)
    is_open = proposal.closed_at is None and proposal.approved_at is None
    expired = now >= proposal.expires_at
    awaits = job.state == JobState.AWAITING_APPROVAL and job.held_at is None
    decidable = is_open and awaits and not expired
    decisions = list(_decisions(proposal, person_id))
    reason, own, way = reason_not_to(facts, person_id), facts.own(person_id), facts.way(person_id)
    may_refuse = own is None and facts.objection(person_id, Verdict.REJECT) is None
    operations = [_operation(o) for o in value["operations"]]
    before = Proposal.objects.filter(job=job, number__lt=proposal.number).order_by("-number")
    previous = before.first() if proposal.number > 1 else None
    return Slip(
        proposal_id=proposal.pk,
        job_id=job.pk,
        job_label=job.label,
        job_title=value["job"]["title"],
        job_state=job.state,
        label=proposal.label,
        number=value["number"],
        title=value["title"],
        summary=value["summary"],
        model_text=value["model_text"],
        model_route=value["model_route"],
        amount=_decimal(value["amount"]),
        currency=value["currency"],
        amount_label=value["amount_label"],
        recipient=value["recipient"],
        sources=value["sources"],
        hands=value.get("hands", {"count": 0, "latest": []}),
        operations=operations,
        headers_left_out=value["headers_left_out"],
        workflow=value["job"]["workflow"],
        workflow_title=value["job"]["workflow_title"],
        revision=value["job"]["revision"],
        reference=value["job"]["reference"],
        initiator=value["job"]["initiator"],
        source=value["job"]["source"],
        policy_name=value["policy"]["name"],
        policy_revision=value["policy"]["revision"],
        policy_id=proposal.policy_id,
        policy_line=_policy_line(facts),
        frozen_at=datetime.fromisoformat(value["frozen_at"]),
        expires_at=datetime.fromisoformat(value["expires_at"]),
        # Of the bytes on the screen, not of the column: a tampered document cannot be signed under its old digest.
        digest=canonical.sha256(proposal.document),
        document=value,
        decisions=decisions,
        approvals=len(facts.valid),
        quorum=facts.quorum,
        two_because=value.get("two_because", ""),
        seats=facts.standing.seats,
        signs_for=way.giver.handle if isinstance(way, Way) and way.giver else "",
        approved_at=proposal.approved_at,
        closing=proposal.closing,
        closed_at=proposal.closed_at,
        closed_sentence=how_it_closed(proposal),
        checks=checks_of(facts),
        open=is_open,
        expired=expired,
        why_not=reason,
        password_why=facts.password_why,
        who_can=_who_can(facts) if is_open and reason else [],
        can_approve=decidable and not reason,
        can_refuse=decidable and may_refuse,
        can_withdraw_proposal=is_open and job.submitted_by_id == person_id,
        can_withdraw_approval=proposal.closed_at is None and own is not None,
        previous=previous,
        newer=None if proposal.closed_at is None else _newest_after(proposal),
        differences=[] if previous is None else differences(read(previous.document), value),
        sent=what_was_sent(proposal.pk, operations) if proposal.closing == Closing.SENT else [],
        earlier=earlier_ends(proposal) if proposal.closed_at is None else [],
        twins=twins_of(proposal) if is_open else [],
        times=timetable(facts, awaits=decidable, mine=job.submitted_by_id == person_id, now=now),
    )


def _policy_line(facts: Facts) -> str:
    line = in_a_line(facts.frozen)
    if facts.proposal.two_because:
        return f"{line}. This one needs two: {in_a_line(facts.current)}"
    return (
        line
        if facts.current == facts.frozen
        else f"{line}. Today’s revision holds too: {in_a_line(facts.current)}"
    )


def _newest_after(proposal: Proposal) -> Proposal | None:
    later = Proposal.objects.filter(job_id=proposal.job_id, number__gt=proposal.number)
    return later.defer("document").order_by("-number").first()


def _who_can(facts: Facts) -> list[str]:
    """Who may still sign it, by name."""
    able = facts.able - {d.person_id for d in facts.live}
    return list(Person.objects.filter(pk__in=able).order_by("username").values_list("username", flat=True))


def _decisions(proposal: Proposal, person_id: int) -> Iterator[SlipDecision]:
    rows = Decision.objects.filter(proposal=proposal).select_related("on_behalf_of")
    voids = {v.decision_id: v for v in DecisionVoid.objects.filter(decision__proposal=proposal)}
    for row in rows.order_by("decided_at", "pk"):
        void = voids.get(row.pk)
        yield SlipDecision(
            decision_id=row.pk,
            person=row.person_name,
            signed_for=row.on_behalf_of.username if row.on_behalf_of else "",
            verdict=row.verdict,
            decided_at=row.decided_at,
            digest=row.digest,
            reason=row.reason,
            fields=row.fields.split("\n") if row.fields else [],
            authenticated_by=row.authenticated_by,
            void=void is not None,
            void_why=void.why if void else "",
            voided_at=void.voided_at if void else None,
            mine=row.person_id == person_id,
        )


def _operation(value: dict[str, Any]) -> SlipOperation:
    named = {name: value[name] for name in SlipOperation.__slots__ if name not in ("headers", "amount")}
    return SlipOperation(headers=sorted(value["headers"].items()), amount=_decimal(value["amount"]), **named)


def _decimal(text: str | None) -> Decimal | None:
    try:
        return None if text is None else Decimal(text)
    except InvalidOperation as broken:
        raise canonical.NotCanonical(f"{text} is no amount.") from broken
