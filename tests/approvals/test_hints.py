"""What the database leaves out of "For me" is exactly what the rules refuse, whoever asks and whatever the policy says."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.models import Membership, Person
from access.roles import Role
from access.tenancy import acting, reading
from approvals import queries
from approvals.actions.withdraw import withdraw_approval
from approvals.queries import Which
from tests.approvals.pages import as_person, at, text
from tests.approvals.test_authority import group, lend
from tests.approvals.world import World, draft, make_person

pytestmark = pytest.mark.django_db(transaction=True)
EUR = {"currency": "EUR"}


def listed(world: World, person: Person, which: Which) -> dict[int, str]:
    with reading(world.tenant.pk):
        page = queries.awaiting(person_id=person.pk, which=which, now=timezone.now(), limit=100)
        assert not page.next_after
        return {row.proposal_id: row.why_not for row in page.rows}


RULES: dict[str, list[dict[str, Any]]] = {
    "a limit": [{"limits": [{"amount": "4800.00", **EUR}]}],
    "a limit that went down": [
        {"limits": [{"amount": "9000.00", **EUR}]},
        {"limits": [{"amount": "100.00", **EUR}]},
    ],
    "limits by person, group and workflow": [
        {
            "limits": [
                {"amount": "10.00", **EUR},
                {"amount": "5000.00", "group": "controllers", **EUR},
                {"amount": "9000.00", "group": "controllers", "workflow": "another", **EUR},
            ]
        }
    ],
    "a rate": [{"limits": [{"amount": "4416.00", **EUR}], "rates": {"USD/EUR": "0.92"}}],
    "another currency": [{"limits": [{"amount": "1.00", "currency": "NOK"}]}],
    "more digits than a column has": [
        {"limits": [{"amount": "9" * 15 + ".00", **EUR}], "rates": {"USD/EUR": "0.000001"}}
    ],
    "a group": [{"levels": [{"group": "controllers"}]}],
    "two levels": [{"levels": [{"group": "controllers"}, {"name": "last"}]}],
    "a level that was added": [{}, {"levels": [{}, {"group": "controllers"}]}],
    "own ones allowed": [{"four_eyes": False}],
    "four eyes that came later": [{"four_eyes": False}, {}],
    "who was escalated to": [
        {
            "levels": [{"group": "controllers"}],
            "escalation": [{"after_minutes": 1, "role": "manager", "may_decide": True}],
        }
    ],
}


@pytest.mark.parametrize("rules", RULES.values(), ids=RULES)
def test_for_me_is_what_the_rules_allow(world: World, rules: list[dict[str, Any]]) -> None:
    third = make_person(world.tenant, Role.MANAGER)
    with acting(world.tenant.pk):
        Membership.objects.create(tenant=world.tenant, person=world.submitter, role=Role.MANAGER)
    group(world, "controllers", world.manager)
    lend(world, world.manager, world.second)
    world.policy(**rules[0])
    world.proposed()
    world.proposed(draft(amount="4800.01"))
    world.proposed(draft(currency="USD"))
    world.proposed(draft(amount=None, currency=None, amount_label=""))
    if len(rules) > 1:
        world.policy(**rules[1])
        world.proposed()
    allowed = 0
    for person in (world.manager, world.second, third, world.submitter, world.operator):
        everyone = listed(world, person, Which.EVERYONE)
        mine = {pk for pk, why_not in everyone.items() if not why_not}
        assert set(listed(world, person, Which.FOR_ME)) == mine, (person, everyone)
        allowed += len(mine)
    assert allowed or "NOK" in str(rules)


def test_what_i_signed_leaves_the_list_and_comes_back_when_it_no_longer_counts(world: World) -> None:
    world.policy(quorum=2)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    assert listed(world, world.manager, Which.FOR_ME) == {}
    withdraw_approval(
        tenant_id=world.tenant.pk, proposal_id=proposal.pk, person_id=world.manager.pk, now=timezone.now()
    )
    assert list(listed(world, world.manager, Which.FOR_ME)) == [proposal.pk]


def test_looking_stops_at_many_that_no_hint_leaves_out_and_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four proposals that an exhausted sum keeps from everybody, which no hint knows, and one that fits behind them."""
    monkeypatch.setattr(queries, "LOOKED_AT_THEN", 2)
    monkeypatch.setattr(queries, "COUNTED_UP_TO", 2)
    monkeypatch.setattr("approvals.inbox.PAGE", 1)
    world.policy(sums=[{"amount": "5000.00", **EUR}])
    now = timezone.now()
    for minutes in (9, 8, 7, 6):
        world.proposed(draft(amount="6000.00"), now=now - timedelta(minutes=minutes))
    last = world.proposed(now=now)
    client = as_person(world.manager)
    first = text(client.get(at(world, "approvals")))
    assert "None of the first that were looked at is for you" in first
    assert ">0+<" in first
    with reading(world.tenant.pk):
        page = queries.awaiting(person_id=world.manager.pk, which=Which.FOR_ME, now=now, limit=1)
        after = page.next_after
    assert (page.rows, page.unfinished) == ([], True)
    assert after in first
    assert f"/approvals/{last.pk}/" in text(client.get(at(world, "approvals") + f"?after={after}"))


@pytest.mark.parametrize("tab", list(Which))
def test_each_tab_takes_twenty_queries_at_most_however_much_waits(
    world: World, tab: Which, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several pages of what is for me, and of what is not; then more of it, which costs no more."""
    monkeypatch.setattr("approvals.inbox.PAGE", 1)
    world.policy(limits=[{"amount": "5000.00", **EUR}], quorum=2)
    for _ in range(2):
        world.decide(world.proposed(), world.manager)
        world.proposed()
        world.proposed(draft(amount="5000.01"))
    client = as_person(world.manager)

    def cost() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(at(world, "approvals") + f"?tab={tab}")
        return sum(q["sql"] not in ("BEGIN", "COMMIT") for q in captured.captured_queries)

    before = cost()
    for _ in range(3):
        world.proposed(draft(amount="5000.01"))
    world.proposed()
    assert (cost(), before <= 20) == (before, True)
