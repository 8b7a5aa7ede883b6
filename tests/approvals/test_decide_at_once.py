"""Several people at the same instant, in real threads on connections of their own.

Each interleaving: all calls are released together, queue on the job's row, and read what the one before committed.
"""

import pytest
from django.utils import timezone

from access.refusals import Conflict
from access.roles import Role
from access.tenancy import reading
from approvals.actions.asked import DecisionResult, ProposalClosed
from approvals.actions.withdraw import TooLateToWithdraw, withdraw_proposal
from approvals.models import Decision
from tests.approvals.world import World
from tests.support import at_once, make_person
from workflows.actions.cancel import CancelResult, cancel_job

pytestmark = pytest.mark.django_db(transaction=True)


def test_second_manager_is_told_who_decided_first(world: World) -> None:
    """Quorum one: one decision counts and moves the job; the other person hears who and when."""
    proposal = world.proposed()
    results = at_once(
        lambda: world.decide(proposal, world.manager), lambda: world.decide(proposal, world.second)
    )
    (won,) = [r for r in results if isinstance(r, DecisionResult)]
    (lost,) = [r for r in results if isinstance(r, ProposalClosed)]
    winner = world.manager if isinstance(results[0], DecisionResult) else world.second
    assert won.job_state == "READY_TO_COMMIT"
    assert str(lost).startswith(f"This was approved already by {winner.username} at ")
    assert world.events(proposal).count("proposal.approved") == 1
    with reading(world.tenant.pk):
        assert [d.person_id for d in Decision.objects.filter(proposal=proposal)] == [winner.pk]


def test_with_a_quorum_of_two_both_count_and_there_is_one_transition(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    results = at_once(
        lambda: world.decide(proposal, world.manager), lambda: world.decide(proposal, world.second)
    )
    assert sorted(r.job_state for r in results) == ["AWAITING_APPROVAL", "READY_TO_COMMIT"]
    events = world.events(proposal)
    assert (events.count("decision.recorded"), events.count("proposal.approved")) == (1, 1)
    assert len(world.evidence(proposal, "proposal.approved")["decisions"]) == 2


def test_approve_and_reject_never_both_count(world: World) -> None:
    for _ in range(20):
        proposal = world.proposed()
        results = at_once(
            lambda p=proposal: world.decide(p, world.manager, "approve"),
            lambda p=proposal: world.decide(p, world.second, "reject"),
        )
        won = [r for r in results if isinstance(r, DecisionResult)]
        lost = [r for r in results if isinstance(r, ProposalClosed)]
        assert (len(won), len(lost)) == (1, 1)
        expected = "READY_TO_COMMIT" if won[0].verdict == "approve" else "CANCELLED"
        assert world.state(proposal) == won[0].job_state == expected
        first = world.manager if won[0].verdict == "approve" else world.second
        assert first.username in str(lost[0])


def test_a_double_click_makes_one_decision_and_a_calm_second_answer(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    results = at_once(*[lambda: world.decide(proposal, world.manager)] * 3)
    assert sorted(r.repeated for r in results) == [False, True, True]
    assert len({r.decision_id for r in results}) == 1
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert world.events(proposal).count("decision.recorded") == 1


def test_approve_and_cancel_end_in_a_state_that_the_table_allows(world: World) -> None:
    """An admin cancels while a manager approves: READY_TO_COMMIT can still be cancelled, so the cancel always wins."""
    admin = make_person(world.tenant, Role.ADMIN)
    for _ in range(10):
        proposal = world.proposed()
        decided, cancelled = at_once(
            lambda p=proposal: world.decide(p, world.manager),
            lambda p=proposal: cancel_job(
                tenant_id=world.tenant.pk,
                job_id=p.job_id,
                person_id=admin.pk,
                reason="no",
                now=timezone.now(),
            ),
        )
        assert isinstance(decided, DecisionResult | ProposalClosed)
        assert cancelled == CancelResult(ended=True)
        assert (world.state(proposal), world.proposal(proposal).closing) == ("CANCELLED", "voided")


def test_approve_and_withdraw_never_both_happen(world: World) -> None:
    for _ in range(10):
        proposal = world.proposed()
        results = at_once(
            lambda p=proposal: world.decide(p, world.manager),
            lambda p=proposal: withdraw_proposal(
                tenant_id=world.tenant.pk, proposal_id=p.pk, person_id=world.submitter.pk, now=timezone.now()
            ),
        )
        refused = [r for r in results if isinstance(r, Conflict)]
        assert len(refused) == 1
        assert isinstance(refused[0], ProposalClosed | TooLateToWithdraw)
        expected = "READY_TO_COMMIT" if isinstance(results[0], DecisionResult) else "VALIDATED"
        assert world.state(proposal) == expected
