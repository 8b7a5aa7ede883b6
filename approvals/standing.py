"""Whether an approval still holds: looked at again before every send, and what to do when it does not.

`approval_still_holds` reads, and takes room in sums; the other functions write, in the caller's transaction, with job and proposal locked.
The resubmission of an unknown operation does not ask here: its first send may itself have changed what is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from access.directory import Member
from access.roles import WORKER, Role
from access.statements import Asked, Select, ahead
from approvals import schedule, sums
from approvals.blocking import block_of, said_of
from approvals.closing import close, reopen_to_decisions, void
from approvals.document import disagreements
from approvals.facts import asked_about, facts_of
from approvals.locks import CLOCK, database_clock
from approvals.missing import note_approvers
from approvals.models import Closing, Decision, Proposal, ProposedOperation, RecipientBlock
from approvals.objections import FourEyes, NotAnApprover, NotYourLevel, Objection, OverLimit
from approvals.rules import Facts
from approvals.wording import clock, count, zone_asked
from workflows import journal
from workflows.models import Job
from workflows.states import JobState


class Effect(StrEnum):
    """What a check that fails asks for; the first one in this order wins."""

    VOID = "void"  # the proposal is not what was signed: `void_and_return` with Closing.VOIDED
    EXPIRED = "expired"  # its time is over: `void_and_return` with Closing.EXPIRED
    BACK_TO_APPROVAL = "back to approval"  # `send_back_to_approval` with the check's decisions
    WAIT = "wait"  # it stays where it is until somebody lifts what stands in the way
    NONE = ""  # it passes


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check, named as people read it. `decision_ids` are the decisions that stopped counting."""

    name: str
    ok: bool
    sentence: str
    effect: Effect = Effect.NONE
    decision_ids: tuple[int, ...] = ()


def approval_still_holds(proposal: Proposal, *, only: int | None = None) -> list[CheckResult]:
    """Every check on a proposal before a send, in the order of the screen. The sender holds job and proposal.

    Where the policy adds up and nothing is reserved for it (the sums came after its approval, or its room was given
    back), this looks behind the lock of the sums and reserves what passes. `only`: of the proposal's operations this
    one alone is compared with what was signed.
    """
    with ahead(*asked_about(proposal), _proposed(proposal, only), zone_asked(proposal.tenant_id), CLOCK):
        facts = facts_of(proposal)
        if not _lacks_room(facts):
            return checks_of(facts, only=only)
    sums.lock_sums(proposal.policy.name)
    facts = facts_of(proposal)
    checks = checks_of(facts, only=only)
    if all(check.ok for check in checks):
        sums.reserve(proposal, facts.amounts, facts.taken.day, database_clock())
    return checks


def _lacks_room(facts: Facts) -> bool:
    return any(rules.sums for rules in facts.rulesets) and not sums.holds(facts.taken, facts.proposal.pk)


def checks_of(facts: Facts, *, only: int | None = None) -> list[CheckResult]:
    """The same from facts already read, for the slip."""
    checks = [
        _digest(facts, only),
        _expiry(facts.proposal),
        _recipient(facts.proposal, facts.block),
        _initiator(facts),
    ]
    if facts.quorum:
        checks += [_authority(facts), _four_eyes(facts), _limit(facts)]
    if any(rules.sums for rules in facts.rulesets):
        checks.append(_sums(facts))
    return [*checks, _policy(facts)]


def recipient_is_open(proposal: Proposal) -> CheckResult:
    """The block list alone: hard policy, which holds for the resubmission of an unknown operation too. One query."""
    return _recipient(proposal, block_of(proposal.recipient))


def first_failure(checks: Iterable[CheckResult]) -> CheckResult | None:
    """The failed check whose effect comes first: void before expired before back to approval."""
    order = list(Effect)
    failed = sorted((c for c in checks if not c.ok), key=lambda c: order.index(c.effect))
    return failed[0] if failed else None


def failed_decisions(checks: Iterable[CheckResult]) -> list[int]:
    """The ids of all decisions that any check struck out."""
    return sorted({d for c in checks for d in c.decision_ids})


def send_back_to_approval(
    job: Job, proposal: Proposal, decision_ids: Iterable[int], why: str, now: datetime
) -> None:
    """READY_TO_COMMIT → AWAITING_APPROVAL: these decisions are marked void, others still count (event
    `approval.voided`). A proposal that has been sent in part cannot be decided again: it goes back to VALIDATED."""
    if proposal.closed_at is not None:
        void_and_return(job, proposal, why, Closing.VOIDED, now)
        return
    decisions = list(Decision.objects.filter(proposal=proposal, pk__in=list(decision_ids)))
    void(decisions, why, WORKER.name, now)
    journal.transition(
        job=job,
        to=JobState.AWAITING_APPROVAL,
        event="approval.voided",
        actor=WORKER,
        evidence={"proposal": proposal.pk, "decisions": sorted(d.pk for d in decisions), "why": why},
    )
    reopen_to_decisions(proposal)
    schedule.ring(job, proposal, now=True)
    note_approvers(job, proposal, opened=True)


def void_and_return(job: Job, proposal: Proposal, why: str, closing: Closing, now: datetime) -> None:
    """READY_TO_COMMIT → VALIDATED: the proposal is closed (event `proposal.voided`, or `proposal.expired`).

    One that was sent, and definitely did nothing, keeps its closing: it is written once.
    """
    if proposal.closed_at is None:
        close(proposal, closing, why, now)
    else:
        sums.release_where_nothing_stands(job, now)
    journal.transition(
        job=job,
        to=JobState.VALIDATED,
        event="proposal.expired" if closing is Closing.EXPIRED else "proposal.voided",
        actor=WORKER,
        evidence={
            "proposal": proposal.pk,
            "number": proposal.number,
            "digest": proposal.digest,
            "approved": proposal.approved_at is not None,
            "why": why,
        },
    )


def mark_sent(proposal: Proposal, now: datetime) -> None:
    """Close a proposal as sent, in the transaction that opens its first submission. A repeat changes nothing."""
    if proposal.closed_at is None:
        close(proposal, Closing.SENT, "", now)


def _digest(facts: Facts, only: int | None) -> CheckResult:
    proposal = facts.proposal
    operations = _PROPOSED.all(proposal.pk) if only is None else _ONLY.all(proposal.pk, only)
    wrong = disagreements(proposal, operations, among=only is not None)
    if wrong:
        return CheckResult("Digest", False, f"Digest mismatch: {'; '.join(wrong)}.", Effect.VOID)
    strangers = tuple(d.pk for d in facts.approvals if d.digest != proposal.digest)
    if strangers:
        sentence = "An approval is about another digest."
        return CheckResult("Digest", False, sentence, Effect.BACK_TO_APPROVAL, strangers)
    return CheckResult("Digest", True, "The stored bytes are the ones that the digest was made of.")


def _proposed(proposal: Proposal, only: int | None) -> Asked:
    return _PROPOSED.asked(proposal.pk) if only is None else _ONLY.asked(proposal.pk, only)


_PROPOSED = Select(lambda proposal: ProposedOperation.objects.filter(proposal=proposal).order_by("ordinal"))
_ONLY = Select(lambda proposal, only: ProposedOperation.objects.filter(proposal=proposal, pk=only))


def _expiry(proposal: Proposal) -> CheckResult:
    at = clock(proposal.expires_at, proposal.tenant_id)
    if database_clock() >= proposal.expires_at:
        return CheckResult("Expiry", False, f"It expired at {at}.", Effect.EXPIRED)
    return CheckResult("Expiry", True, f"It can be sent until {at}.")


def _recipient(proposal: Proposal, block: RecipientBlock | None) -> CheckResult:
    if block is not None:
        return CheckResult("Recipient", False, said_of(block), Effect.VOID)
    if not proposal.recipient:
        return CheckResult("Recipient", True, "It names no recipient, so none is blocked.")
    return CheckResult("Recipient", True, f"{proposal.recipient} is not blocked.")


def _initiator(facts: Facts) -> CheckResult:
    """Somebody who started it, or asked for it again, still belongs here: nothing is sent for people who are gone."""
    asked = [
        facts.directory.members.get(p) for p in (facts.proposal.initiator_id, *sorted(facts.contributors))
    ]
    here = next((m for m in asked if m is not None and m.roles & _MAY_ASK), None)
    if here is not None:
        return CheckResult("Initiator", True, f"{here.handle} is {_roles(here)} here.")
    return CheckResult(
        "Initiator", False, "Nobody who asked for this may ask for anything here any more.", Effect.VOID
    )


_MAY_ASK = frozenset({Role.SUBMITTER, Role.OPERATOR, Role.ADMIN, Role.MANAGER})


def _roles(member: Member) -> str:
    return " and ".join(sorted(member.roles & _MAY_ASK))


def _authority(facts: Facts) -> CheckResult:
    lost = _objected(facts, NotAnApprover, NotYourLevel)
    if not lost:
        who = ", ".join(_signer(d) for d in facts.approvals)
        sentence = f"{who}: everybody who signed may still sign." if who else "Nobody has signed yet."
        return CheckResult("Authority", True, sentence)
    why = " ".join(str(objection) for _, objection in lost)
    return CheckResult("Authority", False, why, Effect.BACK_TO_APPROVAL, tuple(d.pk for d, _ in lost))


def _signer(decision: Decision) -> str:
    lent = decision.on_behalf_of
    return decision.person_name if lent is None else f"{decision.person_name} for {lent.username}"


def _objected(facts: Facts, *kinds: type[Objection]) -> list[tuple[Decision, Objection]]:
    """The approvals that a kind of objection strikes out now. Of another digest is the digest's own check."""
    found = ((d, facts.objection_to(d)) for d in facts.approvals if d.digest == facts.proposal.digest)
    return [(d, objection) for d, objection in found if isinstance(objection, kinds)]


def _four_eyes(facts: Facts) -> CheckResult:
    if not facts.four_eyes:
        return CheckResult("Four eyes", True, "The policy does not ask for it.")
    own = _objected(facts, FourEyes)
    if not own:
        return CheckResult("Four eyes", True, "Nobody who signed had a hand in it.")
    why = " ".join(f"{_signer(d)} had a hand in this job." for d, _ in own)
    return CheckResult("Four eyes", False, why, Effect.BACK_TO_APPROVAL, tuple(d.pk for d, _ in own))


def _limit(facts: Facts) -> CheckResult:
    over = _objected(facts, OverLimit)
    if not over:
        limited = any(rules.limits for rules in facts.rulesets)
        amounts = ", ".join(f"{amount} {currency}" for amount, currency in facts.amounts) or "No amount"
        whose = "within the limit of everybody who signed" if facts.approvals else "nobody has signed yet"
        sentence = f"{amounts}: {whose}." if limited else "There is no limit."
        return CheckResult("Limit", True, sentence)
    why = " ".join(dict.fromkeys(str(objection) for _, objection in over))
    return CheckResult("Limit", False, why, Effect.BACK_TO_APPROVAL, tuple(d.pk for d, _ in over))


def _sums(facts: Facts) -> CheckResult:
    whose = [d.on_behalf_of_id or d.person_id for d in facts.approvals] or [0]
    over = next((said for person_id in whose if (said := facts.over_sums(person_id)) is not None), None)
    if over is None:
        return CheckResult(
            "Sums", True, "It fits into what the policy allows together with what was approved before."
        )
    # A policy that asks nobody has nobody to go back to.
    effect = Effect.BACK_TO_APPROVAL if facts.quorum else Effect.VOID
    return CheckResult("Sums", False, str(over), effect, tuple(d.pk for d in facts.approvals))


def _policy(facts: Facts) -> CheckResult:
    name = facts.proposal.policy.name
    if not facts.quorum:
        return CheckResult("Policy", True, f"{name} waives the approval.")
    if not facts.missing:
        return CheckResult("Policy", True, f"{name}: {len(facts.valid)} of {facts.quorum} have signed.")
    needs = count(facts.missing, "more approval", "more approvals")
    seats = facts.standing.open
    whose = f" of {seats.name}" if seats is not None and len(facts.current.levels) > 1 else ""
    return CheckResult("Policy", False, f"{name} needs {needs}{whose}.", Effect.BACK_TO_APPROVAL)
