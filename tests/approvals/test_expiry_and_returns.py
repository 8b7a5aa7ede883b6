"""What closes a proposal without a verdict, and how it is asked again."""

import dataclasses
import json
from typing import Any

import pytest
from django.utils import timezone

from access.refusals import NotPermitted
from access.roles import Role
from access.tenancy import acting, reading
from approvals import waiting
from approvals.actions.asked import ProposalClosed, StaleProposal
from approvals.actions.expire import expire
from approvals.actions.repropose import NothingToRepropose, Reproposed, repropose_job
from approvals.actions.view import record_view
from approvals.actions.withdraw import (
    NothingToWithdraw,
    NotYours,
    TooLateToWithdraw,
    Withdrawn,
    withdraw_approval,
    withdraw_proposal,
)
from approvals.models import Decision, DecisionVoid, Proposal, ProposedOperation
from tests.approvals.world import World, long_ago
from tests.support import at_once, make_person
from workflows import machines
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.locks import lock_job
from workflows.machines import Claim, Done, Wait
from workflows.models import Attempt, Job, WorkItem

pytestmark = pytest.mark.django_db(transaction=True)


def run_expiry(world: World, proposal: Proposal) -> Done | Wait:
    blank = {f.name: "" if f.type == "str" else 1 for f in dataclasses.fields(Claim)}
    mine = {
        "tenant_id": world.tenant.pk,
        "job_id": proposal.job_id,
        "key": str(proposal.pk),
        "worker_name": "w1",
    }
    claim = Claim(**{**blank, **mine})  # type: ignore[arg-type]
    assert machines.handler("approvals.expire") is expire
    return expire(claim)


def waits_for(world: World, proposal: Proposal) -> str | None:
    with reading(world.tenant.pk):
        return waiting.why_it_waits(Job.objects.get(pk=proposal.job_id))


def repropose(world: World, proposal: Proposal, person: object) -> Reproposed:
    return repropose_job(
        tenant_id=world.tenant.pk,
        job_id=proposal.job_id,
        person_id=person.pk,  # type: ignore[attr-defined]
        now=timezone.now(),
    )


def withdraw(world: World, proposal: Proposal, person: object, *, approval: bool = False) -> Withdrawn:
    action = withdraw_approval if approval else withdraw_proposal
    return action(
        tenant_id=world.tenant.pk,
        proposal_id=proposal.pk,
        person_id=person.pk,  # type: ignore[attr-defined]
        now=timezone.now(),
        reason="second thoughts",
    )


def test_an_expired_proposal_is_closed_as_expired_and_its_job_goes_back(world: World) -> None:
    proposal = world.proposed(now=long_ago())
    assert run_expiry(world, proposal) == Done()
    assert (world.state(proposal), world.proposal(proposal).closing) == ("VALIDATED", "expired")
    assert world.evidence(proposal, "proposal.expired")["approved"] is False
    events = world.events(proposal)
    assert run_expiry(world, proposal) == Done()
    assert world.events(proposal) == events
    assert "the proposal expired on" in (waits_for(world, proposal) or "")


def test_an_approved_one_that_was_not_sent_in_time_expires_too(world: World) -> None:
    world.policy(waives_approval=True)
    proposal = world.proposed(now=long_ago())
    assert run_expiry(world, proposal) == Done()
    assert world.state(proposal) == "VALIDATED"
    assert world.evidence(proposal, "proposal.expired")["approved"] is True


def test_a_bell_that_rings_too_early_waits_for_the_expiry(world: World) -> None:
    proposal = world.proposed()
    assert run_expiry(world, proposal) == Wait(at=proposal.expires_at)
    assert world.state(proposal) == "AWAITING_APPROVAL"


def test_a_hold_stops_no_clock(world: World) -> None:
    """Its other items leave the claim's sight; what keeps its time stays, whenever it is rung."""
    proposal = world.proposed(now=long_ago())
    hold: dict[str, Any] = {
        "tenant_id": world.tenant.pk, "job_id": proposal.job_id, "person_id": world.operator.pk, "now": timezone.now(),
    }  # fmt: skip
    hold_job(**hold, reason="Looking.")
    with acting(world.tenant.pk):
        machines.ring(job=lock_job(proposal.job_id), machine="approvals.expire", key=str(proposal.pk))
        machines.ring(job=lock_job(proposal.job_id), machine="test.other", key="1")
    assert claimable(world, proposal) == {"approvals.expire"}
    assert run_expiry(world, proposal) == Done()
    assert world.state(proposal) == "VALIDATED"
    release_job(**hold)
    assert claimable(world, proposal) == {"approvals.expire", "test.other"}


def claimable(world: World, proposal: Proposal) -> set[str]:
    with reading(world.tenant.pk):
        items = WorkItem.objects.filter(job_id=proposal.job_id, lane_id__gt=0, stage__kind="machine")
        return set(items.values_list("stage__name", flat=True))


def test_silence_is_never_a_yes(world: World) -> None:
    proposal = world.proposed(now=long_ago())
    run_expiry(world, proposal)
    assert world.proposal(proposal).approved_at is None
    with reading(world.tenant.pk):
        assert not Decision.objects.filter(proposal=proposal).exists()


def test_expiry_and_a_late_send_of_the_bell_change_nothing_after_a_decision(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager, "reject")
    assert run_expiry(world, proposal) == Done()
    assert world.proposal(proposal).closing == "rejected"


def test_a_submitter_withdraws_an_own_proposal_and_nobody_elses(world: World) -> None:
    proposal = world.proposed()
    with pytest.raises(NotYours):
        withdraw(world, proposal, world.operator)
    assert world.events(proposal)[-1] == "withdrawal.refused"
    assert withdraw(world, proposal, world.submitter).job_state == "VALIDATED"
    assert world.proposal(proposal).closing == "withdrawn"
    with pytest.raises(TooLateToWithdraw):
        withdraw(world, proposal, world.submitter)
    with pytest.raises(ProposalClosed, match="withdrawn by its submitter"):
        world.decide(proposal, world.manager)


def test_an_approved_proposal_is_not_withdrawn_by_its_submitter(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    with pytest.raises(TooLateToWithdraw, match="approved already"):
        withdraw(world, proposal, world.submitter)
    assert world.state(proposal) == "READY_TO_COMMIT"


def test_a_manager_takes_an_approval_back_and_may_decide_anew(world: World) -> None:
    proposal = world.proposed()
    first = world.decide(proposal, world.manager)
    with pytest.raises(NothingToWithdraw):
        withdraw(world, proposal, world.second, approval=True)
    assert withdraw(world, proposal, world.manager, approval=True).job_state == "AWAITING_APPROVAL"
    assert world.proposal(proposal).approved_at is None
    with reading(world.tenant.pk):
        assert DecisionVoid.objects.get().decision_id == first.decision_id
        assert Decision.objects.filter(proposal=proposal).count() == 1
    again = world.decide(proposal, world.manager)
    assert (again.repeated, again.job_state) == (False, "READY_TO_COMMIT")


def test_withdrawing_one_of_two_approvals_leaves_the_job_waiting(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    assert withdraw(world, proposal, world.manager, approval=True).job_state == "AWAITING_APPROVAL"
    assert world.decide(proposal, world.second).job_state == "AWAITING_APPROVAL"


def test_asking_again_freezes_the_same_draft_with_new_keys_and_no_step_runs(world: World) -> None:
    first = world.proposed(now=long_ago())
    run_expiry(world, first)
    result = repropose(world, first, world.submitter)
    assert (result.job_state, result.refused) == ("AWAITING_APPROVAL", "")
    with reading(world.tenant.pk):
        second = Proposal.objects.get(pk=result.proposal_id)
        keys = list(ProposedOperation.objects.values_list("operation_key", flat=True))
        assert not Attempt.objects.exists()
    assert (second.number, len(set(keys))) == (2, 2)
    was, now = json.loads(first.document), json.loads(second.document)
    assert was["operations"][0]["changes"] == now["operations"][0]["changes"]
    again = world.events(first).index("proposal.again_asked")
    assert world.events(first)[again:] == ["proposal.again_asked", "proposal.frozen", "approval.asked"]


def test_an_old_page_never_approves_the_new_proposal(world: World) -> None:
    first = world.proposed()
    world.decide(first, world.manager, "request changes")
    result = repropose(world, first, world.operator)
    with reading(world.tenant.pk):
        second = Proposal.objects.get(pk=result.proposal_id)
    with pytest.raises(ProposalClosed, match="The proposal has changed"):
        world.decide(first, world.second)
    with pytest.raises(StaleProposal):
        world.decide(second, world.second, digest=first.digest)
    assert world.proposal(second).approved_at is None
    assert world.decide(second, world.manager).job_state == "READY_TO_COMMIT"


def test_only_an_operator_or_the_submitter_of_the_job_asks_again(world: World) -> None:
    proposal = world.proposed()
    withdraw(world, proposal, world.submitter)
    for person in (world.manager, make_person(world.tenant, Role.SUBMITTER)):
        with pytest.raises(NotPermitted):
            repropose(world, proposal, person)
    assert world.state(proposal) == "VALIDATED"


def test_two_who_ask_again_at_once_make_one_proposal(world: World) -> None:
    proposal = world.proposed()
    withdraw(world, proposal, world.submitter)
    results = at_once(
        lambda: repropose(world, proposal, world.submitter),
        lambda: repropose(world, proposal, world.operator),
    )
    assert sorted(type(r).__name__ for r in results) == ["NothingToRepropose", "Reproposed"]
    with reading(world.tenant.pk):
        assert Proposal.objects.filter(job_id=proposal.job_id).count() == 2


def test_a_job_that_awaits_or_never_proposed_is_not_asked_again(world: World) -> None:
    with pytest.raises(NothingToRepropose, match="is “Awaiting approval”"):
        repropose(world, world.proposed(), world.operator)
    job = world.job()
    with pytest.raises(NothingToRepropose, match="not come to a proposal"):
        repropose_job(
            tenant_id=world.tenant.pk, job_id=job.pk, person_id=world.operator.pk, now=timezone.now()
        )


def test_a_cancelled_job_takes_its_open_proposal_with_it(world: World) -> None:
    admin = make_person(world.tenant, Role.ADMIN)
    for approved in (False, True):
        proposal = world.proposed()
        if approved:
            world.decide(proposal, world.manager)
        cancel_job(
            tenant_id=world.tenant.pk,
            job_id=proposal.job_id,
            person_id=admin.pk,
            reason="stop",
            now=timezone.now(),
        )
        assert (world.state(proposal), world.proposal(proposal).closing) == ("CANCELLED", "voided")
        assert "proposal.cancelled" in world.events(proposal)


def test_a_waiting_job_says_what_it_waits_for(world: World) -> None:
    proposal = world.proposed()
    until = f"{proposal.expires_at:%a %H:%M}"
    assert waits_for(world, proposal) == f"waits for a manager until {until}"
    world.policy(quorum=2)
    assert waits_for(world, proposal) == f"waits for 2 managers until {until}"
    world.decide(proposal, world.manager)
    assert waits_for(world, proposal) == f"needs one more approver until {until}"
    world.decide(proposal, world.second, "request changes", reason="Wrong bank")
    assert waits_for(world, proposal) == f"changes were requested by {world.second.username}: Wrong bank"
    blocked = world.proposed()
    world.end_role(world.second)
    assert waits_for(world, blocked) == "blocked: too few people may approve this"


def test_a_view_by_a_manager_is_journalled_once(world: World) -> None:
    proposal = world.proposed()

    def view(person: object) -> bool:
        return record_view(
            tenant_id=world.tenant.pk,
            proposal_id=proposal.pk,
            person_id=person.pk,  # type: ignore[attr-defined]
        )

    assert [view(world.manager), view(world.manager), view(world.operator), view(world.second)] == [
        True,
        False,
        False,
        True,
    ]
    assert sorted(at_once(*[lambda: view(world.manager)] * 3)) == [False] * 3
    assert world.events(proposal).count("proposal.viewed") == 2
