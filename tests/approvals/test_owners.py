"""However a proposal stops being open without being sent, its job has an owner who is asked what comes next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from access.roles import WORKER
from access.tenancy import acting, reading
from approvals.actions.repropose import repropose_job
from approvals.actions.withdraw import withdraw_proposal
from approvals.locks import lock_job_and_proposal
from approvals.models import Closing, Proposal, Reservation
from approvals.standing import send_back_to_approval, void_and_return
from reconciliation.kinds import KINDS, VerbName
from reconciliation.models import Case, CaseKind
from tests.approvals.test_expiry_and_returns import run_expiry
from tests.approvals.test_looking import away
from tests.approvals.world import World, long_ago
from workflows import journal
from workflows.locks import lock_job
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def expires(world: World) -> Proposal:
    proposal = world.proposed(now=long_ago())
    run_expiry(world, proposal)
    return proposal


def expires_approved(world: World) -> Proposal:
    world.policy(waives_approval=True)
    return expires(world)


def expires_blocked(world: World) -> Proposal:
    """Its case for missing approvers was opened before its time was over."""
    proposal = world.proposed(now=long_ago())
    world.end_role(world.manager)
    with acting(world.tenant.pk):
        journal.record(
            job=lock_job(proposal.job_id),
            event="approver.missing",
            actor=WORKER,
            evidence={"why": "All gone."},
        )
    run_expiry(world, proposal)
    return proposal


def changes_are_asked(world: World) -> Proposal:
    proposal = world.proposed()
    world.decide(proposal, world.manager, "request changes")
    return proposal


def is_withdrawn(world: World) -> Proposal:
    away(world, world.manager, world.second)
    proposal = world.proposed()
    withdraw_proposal(
        tenant_id=world.tenant.pk, proposal_id=proposal.pk, person_id=world.submitter.pk, now=timezone.now()
    )
    return proposal


def fails_a_check(world: World) -> Proposal:
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    with acting(world.tenant.pk):
        job, locked = lock_job_and_proposal(proposal.pk)
        void_and_return(job, locked, "the source has changed", Closing.VOIDED, timezone.now())
    return proposal


def does_not_fit_when_asked_again(world: World) -> Proposal:
    proposal = expires(world)
    world.policy(waives_approval=True, sums=[{"amount": "1.00", "currency": "EUR"}])
    again = repropose_job(
        tenant_id=world.tenant.pk, job_id=proposal.job_id, person_id=world.submitter.pk, now=timezone.now()
    )
    assert "1.00 EUR" in again.refused
    return proposal


PATHS: dict[Callable[[World], Proposal], set[str]] = {
    expires: {CaseKind.PROPOSAL_EXPIRED},
    expires_approved: {CaseKind.PROPOSAL_EXPIRED},
    expires_blocked: {CaseKind.PROPOSAL_EXPIRED},
    changes_are_asked: {CaseKind.CHANGES_REQUESTED},
    is_withdrawn: {CaseKind.CHANGES_REQUESTED},
    fails_a_check: {CaseKind.FACT_CHANGED},
    does_not_fit_when_asked_again: {CaseKind.PROPOSAL_EXPIRED, CaseKind.PERMANENT_ERROR},
}


def open_kinds(world: World, proposal: Proposal) -> set[str]:
    with reading(world.tenant.pk):
        cases = Case.objects.filter(job_id=proposal.job_id, resolved_at__isnull=True)
        return set(cases.values_list("kind", flat=True))


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
def test_a_job_that_went_back_has_an_owner_and_a_way_on(world: World, path: Any) -> None:
    world.policy(sums=[{"amount": "9000.00", "currency": "EUR"}])
    proposal = path(world)
    assert world.state(proposal) == "VALIDATED"
    assert open_kinds(world, proposal) == PATHS[path], "and none of what is not asked any more"
    assert all(VerbName.REPROPOSE in KINDS[CaseKind(kind)].verbs for kind in PATHS[path])
    with reading(world.tenant.pk):
        assert world.submitter.username in " ".join(Case.objects.values_list("title", flat=True))
        assert not Reservation.objects.filter(released_at__isnull=True).exists()
        assert Job.objects.get(pk=proposal.job_id).submitted_by_id == world.submitter.pk
    world.policy()
    repropose_job(
        tenant_id=world.tenant.pk, job_id=proposal.job_id, person_id=world.submitter.pk, now=timezone.now()
    )
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert open_kinds(world, proposal) <= {CaseKind.NO_APPROVER}


def test_one_that_goes_back_to_its_approvers_gives_its_room_back_and_has_a_case_where_nobody_is_left(
    world: World,
) -> None:
    world.policy(sums=[{"amount": "9000.00", "currency": "EUR"}])
    proposal = world.proposed()
    decision = world.decide(proposal, world.manager)
    away(world, world.manager, world.second)
    with acting(world.tenant.pk):
        job, locked = lock_job_and_proposal(proposal.pk)
        send_back_to_approval(job, locked, [decision.decision_id], "a limit fell", timezone.now())
    assert world.state(proposal) == "AWAITING_APPROVAL"
    assert open_kinds(world, proposal) == {CaseKind.NO_APPROVER}
    with reading(world.tenant.pk):
        assert Reservation.objects.get().released_why == "back to its approvers"
