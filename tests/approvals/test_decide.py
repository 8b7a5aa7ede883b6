"""One function behind every door: who may decide, on which digest, until when; and what follows from it."""

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from access.refusals import Refused
from access.roles import Role
from access.tenancy import acting, reading
from approvals.actions import asked
from approvals.actions.decide import has_expired, record_decision
from approvals.locks import NoSuchProposal
from approvals.models import Decision, Proposal, Refusal
from approvals.reasons import ReasonMissing
from approvals.rules import FourEyes, NotAnApprover, OverLimit
from tests.approvals.world import World, draft, long_ago, operation
from tests.support import make_person
from workflows import items, journal
from workflows.actions.hold import hold_job
from workflows.locks import lock_job
from workflows.models import Job, WorkItem
from workflows.states import OPEN_ITEM_STATES

pytestmark = pytest.mark.django_db(transaction=True)


def refused(world: World, proposal: Proposal, kind: type[Refused], person: object, **more: object) -> str:
    """The sentence of a refusal that changed nothing, and was kept as a row and in the journal."""
    before = (world.state(proposal), world.proposal(proposal).closing, count(world, proposal))
    with pytest.raises(kind) as caught:
        world.decide(proposal, person, **more)  # type: ignore[arg-type]
    assert (world.state(proposal), world.proposal(proposal).closing, count(world, proposal)) == before
    with reading(world.tenant.pk):
        kept = Refusal.objects.filter(proposal=proposal).latest("pk")
    assert kept.why == f"{kind.__name__}: {caught.value}"[:1000]
    assert world.evidence(proposal, "decision.refused")["why"] == kind.__name__
    return str(caught.value)


def count(world: World, proposal: Proposal) -> int:
    with reading(world.tenant.pk):
        return Decision.objects.filter(proposal=proposal).count()


def test_an_approval_that_makes_the_quorum_moves_the_job_with_the_digest_as_evidence(world: World) -> None:
    proposal = world.proposed()
    result = world.decide(proposal, world.manager)
    assert (result.job_state, result.repeated, result.approvals, result.quorum) == (
        "READY_TO_COMMIT",
        False,
        1,
        1,
    )
    evidence = world.evidence(proposal, "proposal.approved")
    assert evidence["digest"] == proposal.digest
    assert [d["by"] for d in evidence["decisions"]] == [world.manager.username]
    assert world.proposal(proposal).approved_at is not None
    with reading(world.tenant.pk):
        row = Decision.objects.get(proposal=proposal)
    assert (row.person_id, row.person_name, row.authenticated_by) == (
        world.manager.pk, world.manager.username, "password",
    )  # fmt: skip


def test_a_quorum_of_two_waits_for_the_second_person(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    first = world.decide(proposal, world.manager)
    assert (first.job_state, first.sentence) == (
        "AWAITING_APPROVAL",
        "Your approval is recorded. It needs one more approver.",
    )
    assert world.evidence(proposal, "decision.recorded")["approvals"] == 1
    assert world.decide(proposal, world.second).job_state == "READY_TO_COMMIT"
    assert len(world.evidence(proposal, "proposal.approved")["decisions"]) == 2


def test_the_same_person_again_is_told_calmly_and_counts_once(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    first = world.decide(proposal, world.manager)
    again = world.decide(proposal, world.manager)
    assert (again.repeated, again.decision_id, again.job_state) == (
        True,
        first.decision_id,
        "AWAITING_APPROVAL",
    )
    assert again.sentence.startswith("You approved this already at ")
    assert count(world, proposal) == 1
    assert "already" in refused(world, proposal, asked.AlreadyDecided, world.manager, verdict="reject")


def test_a_rejection_cancels_the_job_and_what_was_open_of_it(world: World) -> None:
    proposal = world.proposed()
    result = world.decide(proposal, world.manager, "reject", reason="Too high")
    assert (result.job_state, result.closing) == ("CANCELLED", "rejected")
    assert world.events(proposal)[-1] == "proposal.rejected"
    with reading(world.tenant.pk):
        open_items = WorkItem.objects.filter(
            job_id=proposal.job_id, state__in=[s.number for s in OPEN_ITEM_STATES]
        )
        assert not open_items.exists()
    assert world.decide(proposal, world.manager, "reject", reason="Too high").repeated
    said = refused(world, proposal, asked.ProposalClosed, world.second)
    assert said.startswith(f"{world.manager.username} rejected this at ")
    assert said.endswith("Too high")


def test_requested_changes_send_the_job_back_with_the_fields(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager, "request changes", reason="Wrong bank", fields=["limit"])
    assert world.state(proposal) == "VALIDATED"
    assert world.evidence(proposal, "changes.requested")["fields"] == ["limit"]
    assert world.proposal(proposal).closing == "changes requested"


@pytest.mark.parametrize("verdict", ["reject", "request changes"])
def test_saying_no_without_a_reason_is_refused(world: World, verdict: str) -> None:
    refused(world, world.proposed(), ReasonMissing, world.manager, verdict=verdict, reason="  ")


def test_a_reason_or_verdict_that_cannot_be_kept_is_refused_and_never_a_crash(world: World) -> None:
    proposal = world.proposed()
    refused(world, proposal, ReasonMissing, world.manager, verdict="reject", reason="a\x00b")
    refused(world, proposal, ReasonMissing, world.manager, reason="x" * 4001)
    refused(world, proposal, asked.NoSuchVerdict, world.manager, verdict="maybe\x00\ud800")
    refused(world, proposal, asked.NoSuchVerdict, world.manager, digest="")


def test_another_digest_than_the_proposals_is_refused(world: World) -> None:
    proposal = world.proposed()
    said = refused(world, proposal, asked.StaleProposal, world.manager, digest="0" * 64)
    assert said.startswith("The proposal has changed")


def test_only_active_managers_of_this_tenant_decide(world: World) -> None:
    proposal = world.proposed()
    refused(world, proposal, NotAnApprover, world.operator)
    refused(world, proposal, NotAnApprover, World.make().manager)
    world.second.is_active = False
    world.second.save()
    refused(world, proposal, NotAnApprover, world.second)
    superuser = make_person(world.tenant)
    superuser.is_superuser = True
    superuser.save()
    refused(world, proposal, NotAnApprover, superuser)


def test_who_started_the_job_cannot_decide_it_not_even_as_a_manager(world: World) -> None:
    both = make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)
    proposal = world.proposed(by=both)
    for verdict in ("approve", "reject", "request changes"):
        assert "You started this job" in refused(world, proposal, FourEyes, both, verdict=verdict)
    assert world.decide(proposal, world.manager).job_state == "READY_TO_COMMIT"


@pytest.mark.parametrize("event", ["item.corrected", "question.answered"])
def test_who_corrected_an_item_or_answered_a_question_counts_as_a_maker(world: World, event: str) -> None:
    corrector = make_person(world.tenant, Role.OPERATOR, Role.MANAGER)
    proposal = world.proposed()
    with acting(world.tenant.pk):
        from access import authority

        actor = authority.require(corrector.pk, Role.OPERATOR)
        journal.record(job=lock_job(proposal.job_id), event=event, actor=actor, evidence={"item": 0})
    assert "had a hand in" in refused(world, proposal, FourEyes, corrector)


def test_exactly_at_the_expiry_counts_as_expired(world: World) -> None:
    proposal = world.proposed()
    before, at = proposal.expires_at - timedelta(microseconds=1), proposal.expires_at
    assert has_expired(at, before) is False
    assert has_expired(at, before, at) is True
    refused(world, proposal, asked.Expired, world.manager, now=at)
    assert world.decide(proposal, world.manager, now=before).job_state == "READY_TO_COMMIT"


def test_the_databases_clock_decides_whatever_the_caller_says(world: World) -> None:
    frozen = long_ago()
    proposal = world.proposed(now=frozen)
    assert "expired at" in refused(world, proposal, asked.Expired, world.manager, now=frozen)


def test_an_amount_over_the_limit_can_be_refused_but_not_approved(world: World) -> None:
    world.policy(limit_amount=Decimal("4799.99"), limit_currency="EUR")
    proposal = world.proposed()
    assert "above the limit of 4,799.99 EUR" in refused(world, proposal, OverLimit, world.manager)
    assert world.decide(proposal, world.manager, "reject").job_state == "CANCELLED"


def test_the_sum_of_the_operations_is_held_against_the_limit_too(world: World) -> None:
    world.policy(limit_amount=Decimal("5000"), limit_currency="EUR")
    half = operation(amount="3000.00", currency="EUR")
    proposal = world.proposed(draft(amount=None, currency=None, operations=[half, {**half, "record": "V-2"}]))
    refused(world, proposal, OverLimit, world.manager)


def test_another_currency_is_never_compared(world: World) -> None:
    world.policy(limit_amount=Decimal("1000000"), limit_currency="NOK")
    said = refused(world, world.proposed(), OverLimit, world.manager)
    assert "never compared" in said


def test_a_held_job_is_not_decided(world: World) -> None:
    proposal = world.proposed()
    hold_job(
        tenant_id=world.tenant.pk,
        job_id=proposal.job_id,
        person_id=world.operator.pk,
        reason="Looking.",
        now=timezone.now(),
    )
    assert "holds JOB-" in refused(world, proposal, asked.HeldOrCancelRequested, world.manager)


def test_a_job_that_somebody_asked_to_cancel_is_not_decided(world: World) -> None:
    """It was asked while something was on its way, of which nothing came, and the approval no longer held."""
    proposal = world.proposed()
    with acting(world.tenant.pk):
        Job.objects.filter(pk=proposal.job_id).update(
            cancel_requested_at=timezone.now(), cancel_requested_by="ada", cancel_reason="stop"
        )
    said = refused(world, proposal, asked.HeldOrCancelRequested, world.manager)
    assert said.startswith("ada asked to cancel JOB-")


def test_a_rule_tightened_while_waiting_holds_at_once(world: World) -> None:
    proposal = world.proposed()
    world.policy(quorum=2)
    assert world.decide(proposal, world.manager).job_state == "AWAITING_APPROVAL"
    assert world.decide(proposal, world.second).job_state == "READY_TO_COMMIT"


def test_an_approval_whose_author_lost_the_role_meanwhile_does_not_count(world: World) -> None:
    world.policy(quorum=2)
    third = make_person(world.tenant, Role.MANAGER)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    world.end_role(world.manager)
    assert world.decide(proposal, world.second).job_state == "AWAITING_APPROVAL"
    assert world.decide(proposal, third).job_state == "READY_TO_COMMIT"


def test_an_unknown_proposal_is_not_found_and_so_is_another_tenants(world: World) -> None:
    proposal = world.proposed()
    other = World.make()
    for tenant, number in ((world.tenant, 2**40), (other.tenant, proposal.pk)):
        with pytest.raises(NoSuchProposal):
            record_decision(
                tenant_id=tenant.pk,
                proposal_id=number,
                person_id=world.manager.pk,
                verdict="approve",
                digest=proposal.digest,
                now=timezone.now(),
            )
    assert world.events(proposal)[-1] == "approval.asked"


def test_open_items_are_cancelled_only_by_the_rejection_that_counts(world: World) -> None:
    proposal = world.proposed()
    refused(world, proposal, asked.StaleProposal, world.manager, verdict="reject", digest="1" * 64)
    with acting(world.tenant.pk):
        assert items.cancel_open(job=lock_job(proposal.job_id)) > 0
