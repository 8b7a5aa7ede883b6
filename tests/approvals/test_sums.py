"""Sums of approvals at their edges: midnight, a recipient under another spelling, a limit that came after the approval."""

from __future__ import annotations

import os
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from access.roles import Role
from access.tenancy import reading
from approvals.models import Proposal, Reservation
from approvals.objections import OverSum
from approvals.ruleset import RuleSet
from approvals.sums import Held, Taken, over_sums
from tests.approvals.test_authority import blocked, failing, group, lend
from tests.approvals.world import World, draft, make_person

DAY = timedelta(days=1)


def room_for_one(**more: Any) -> list[dict[str, Any]]:
    """A sum that takes one of these tests' proposals, of 4,800.00 EUR each."""
    return [{"amount": "5000.00", "currency": "EUR", **more}]


def moved_to_yesterday(proposal: Proposal) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute("UPDATE approvals_reservation SET day = day - 1 WHERE proposal_id = %s", [proposal.pk])


def test_what_was_approved_yesterday_keeps_its_room_whatever_today_takes(world: World) -> None:
    world.policy(sums=room_for_one())
    first, second = world.proposed(), world.proposed()
    world.decide(first, world.manager)
    moved_to_yesterday(first)
    world.decide(second, world.manager)
    assert (failing(world, first), failing(world, second)) == ([], [])
    world.policy(sums=[{"amount": "4000.00", "currency": "EUR"}])
    assert failing(world, first) == ["Sums"], "today's policy is stricter about its own day too"


def test_a_sum_that_is_lowered_counts_the_days_before_the_approvals_own(world: World) -> None:
    world.policy(sums=[{"days": 2, "amount": "10000.00", "currency": "EUR"}])
    first, second = world.proposed(), world.proposed()
    world.decide(first, world.manager)
    moved_to_yesterday(first)
    world.decide(second, world.manager)
    for proposal in (first, second):
        moved_to_yesterday(proposal)
    world.policy(sums=room_for_one(days=2))
    assert (failing(world, first), failing(world, second)) == ([], ["Sums"])


def test_an_approval_counts_on_the_day_that_it_was_compared_with(world: World) -> None:
    """A request of before midnight waits for a lock until after it: it is compared with, and counts on, the new day."""
    world.policy(sums=room_for_one())
    world.decide(world.proposed(), world.manager, now=timezone.now() - DAY)
    with pytest.raises(OverSum):
        world.decide(world.proposed(), world.manager)


def test_whoever_signed_first_counts_when_the_last_signature_completes_it(world: World) -> None:
    """A signs two while nothing is reserved; the first is completed, and A's own sum has no room for the second."""
    world.policy(quorum=2, sums=room_for_one(per="approver"))
    third, proposals = make_person(world.tenant, Role.MANAGER), [world.proposed(), world.proposed()]
    for proposal in proposals:
        world.decide(proposal, world.manager)
    world.decide(proposals[0], world.second)
    with pytest.raises(
        OverSum, match=f"{world.manager.username} has signed this already. With this, what this"
    ):
        world.decide(proposals[1], third)
    assert [world.state(p) for p in proposals] == ["READY_TO_COMMIT", "AWAITING_APPROVAL"]
    assert blocked(world, proposals[1])
    assert failing(world, proposals[0]) == []


def test_an_approvers_sum_counts_what_was_signed_with_the_authority_that_they_lent(world: World) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}], sums=room_for_one(per="approver"))
    lend(world, world.manager, world.second)
    world.decide(world.proposed(), world.second)
    with pytest.raises(OverSum):
        world.decide(world.proposed(), world.manager)


@pytest.mark.parametrize("spelt", ["fennmark  CASTINGS", "Ｆennmark Cast\u200bings"])
def test_another_spelling_of_a_recipient_is_no_other_recipient(world: World, spelt: str) -> None:
    world.policy(sums=room_for_one(per="recipient"))
    world.decide(world.proposed(), world.manager)
    with pytest.raises(OverSum, match="what this recipient gets"):
        world.decide(world.proposed(draft(recipient=spelt)), world.manager)
    world.decide(world.proposed(draft(recipient="Somebody else")), world.manager)
    with reading(world.tenant.pk):
        assert sorted(Reservation.objects.values_list("recipient", flat=True)) == [
            "Fennmark Castings",
            "Somebody else",
        ]


def test_of_one_currency_the_largest_counts_and_without_a_rate_nothing_is_added() -> None:
    """An amount and the sum of its operations are not two; a negative one counts as what it moves."""
    rules, today = RuleSet.model_validate({"sums": room_for_one()}), date(2030, 3, 28)
    held = Held(today, "", 7, Decimal(1), "USD")

    def over(*amounts: tuple[str, str], beside: tuple[Held, ...] = ()) -> str:
        found = over_sums([(Decimal(a), c) for a, c in amounts], [rules], Taken(today, beside), recipient="")
        return "" if found is None else str(found)

    assert over(("5000.00", "EUR"), ("0.00", "EUR")) == ""
    for first, last in (("-5000.01", "1.00"), ("1.00", "-5000.01")):
        assert "would be 5,000.01 EUR" in over((first, "EUR"), (last, "EUR"))
    assert "names no rate for USD" in over(("1.00", "USD"))
    assert "names no rate for USD" in over(("1.00", "EUR"), beside=(held,))
