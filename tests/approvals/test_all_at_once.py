"""Everything that touches open proposals, at the same instant: no deadlock, and what stands agrees with itself.

Each round releases together, in threads with connections of their own: a bulk over all proposals, single decisions in
the opposite order, a withdrawal, an escalation that lets somebody else sign, a walk after a change of people, and the
expiry of one. All of them add to, or give back of, the same sums.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from access.models import Membership
from access.refusals import Refused
from access.roles import Role
from access.tenancy import acting, reading
from approvals import looking
from approvals.actions.bulk import carry_out, choose_proposals, confirm_selection
from approvals.actions.withdraw import withdraw_approval
from approvals.facts import facts_of
from approvals.models import Proposal, Reservation
from tests.approvals.test_expiry_and_returns import run_expiry
from tests.approvals.test_looking import due, open_case, walk
from tests.approvals.test_schedule import run as notice
from tests.approvals.world import World, long_ago, make_person
from tests.support import at_once

pytestmark = pytest.mark.django_db(transaction=True)
RULES: dict[str, Any] = {
    "quorum": 2,
    "bulk": True,
    "sums": [{"amount": "10000.00", "currency": "EUR"}],
    "escalation": [{"after_minutes": 1, "role": "operator", "may_decide": True}],
    "expires_after_minutes": 2 * 24 * 60,
}


def each(calls: list[Callable[[], Any]]) -> Callable[[], None]:
    """One after the other; what is refused is refused."""

    def run() -> None:
        for call in calls:
            try:
                call()
            except Refused:
                pass

    return run


def a_round() -> None:
    world = World.make(**RULES)
    third, asked = make_person(world.tenant, Role.MANAGER), timezone.now() - timedelta(minutes=5)
    proposals = [world.proposed(now=asked) for _ in range(3)]
    late, tenant = world.proposed(now=long_ago()), world.tenant.pk
    world.decide(proposals[0], third)
    selection = choose_proposals(
        tenant_id=tenant, person_id=world.manager.pk, chosen=[(p.pk, p.digest) for p in proposals], now=timezone.now()
    )  # fmt: skip
    confirm_selection(
        tenant_id=tenant, selection_id=selection, person_id=world.manager.pk, verdict="approve", reason="",
        seen=[p.pk for p in proposals], why_left={}, now=timezone.now(),
    )  # fmt: skip
    at_once(
        lambda: carry_out(tenant_id=tenant, selection_id=selection, person_id=world.manager.pk, session=""),
        each([lambda p=p: world.decide(p, world.second) for p in reversed(proposals)]),  # type: ignore[misc]
        each([lambda p=p: notice(world, p) for p in (*proposals, late)]),  # type: ignore[misc]
        each([lambda: run_expiry(world, late), lambda: world.decide(late, world.second)]),
        each([lambda: _leave(world, third), lambda: _walk(world)]),
        each([
            lambda: withdraw_approval(
                tenant_id=tenant, proposal_id=proposals[0].pk, person_id=third.pk, now=timezone.now()
            )
        ]),
    )  # fmt: skip
    walk(world)
    assert (world.state(late), world.proposal(late).closing) == ("VALIDATED", "expired")
    _agrees(world, proposals)


def _leave(world: World, person: Any) -> None:
    with acting(world.tenant.pk):
        Membership.objects.filter(person=person, ended_at=None).update(ended_at=timezone.now())


def _walk(world: World) -> None:
    for tenant_id, look_id in due(world):
        while looking.turn(tenant_id, look_id, "w1"):
            pass


def _agrees(world: World, proposals: list[Proposal]) -> None:
    with reading(world.tenant.pk):
        fresh = list(
            Proposal.objects.select_related("policy", "job").filter(pk__in=[p.pk for p in proposals])
        )
        approved = {p.pk for p in fresh if p.approved_at is not None}
        reserved = list(Reservation.objects.filter(released_at=None).values_list("proposal_id", flat=True))
        for proposal in fresh:
            done = proposal.pk in approved
            assert proposal.job.state == ("READY_TO_COMMIT" if done else "AWAITING_APPROVAL")
            assert len(facts_of(proposal).approvals) >= 2 if done else proposal.closed_at is None
            if not done:
                assert facts_of(proposal).blocked == (proposal.blocked_at is not None)
    assert sorted(reserved) == sorted(approved)
    assert len(approved) <= 2, "the sums have room for two"
    for proposal in fresh:
        assert (open_case(world, proposal) is not None) == (proposal.blocked_at is not None)


def test_bulk_single_withdrawal_escalation_walk_and_expiry_at_once(transactional_db: None) -> None:
    a_round()


@pytest.mark.long
def test_many_rounds_of_all_at_once(transactional_db: None) -> None:
    for _ in range(10):
        a_round()
