"""Asking who could approve something before there is anything to approve, and what a draft would do to what is open."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person
from access.roles import Role
from access.tenancy import reading
from approvals.facts import facts_of
from approvals.foreseeing import foresee
from approvals.models import Proposal
from approvals.names_gone import warnings
from approvals.policies import PolicyWrittenMeanwhile, read_rules, write_policy
from approvals.rules import Way
from approvals.simulating import Answer, Question, simulate
from tests.approvals.test_authority import absent, group, lend
from tests.approvals.world import World
from tests.support import at_once, make_person

HOUR = timedelta(hours=1)


def ask(world: World, rules: dict[str, Any], **changes: Any) -> Answer:
    asked: dict[str, Any] = {
        "policy": "test-policy",
        "rules": read_rules(rules),
        "workflow": "orders",
        "at": timezone.now(),
        "amount": Decimal("4800.00"),
        "currency": "EUR",
        **changes,
    }
    with reading(world.tenant.pk):
        return simulate(Question(**asked))


def said(answer: Answer, level: int = 1) -> dict[str, str]:
    """By person: whom they sign for, or why they could not."""
    people = answer.levels[level - 1].people
    return {
        p.handle: (f"can for {p.signs_for}" if p.signs_for else "can") if p.can else p.why_not for p in people
    }


def test_each_level_says_who_could_sign_it_and_why_others_could_not(world: World) -> None:
    group(world, "controllers", world.second, world.operator)
    rules = {
        "levels": [{"name": "team"}, {"group": "controllers"}],
        "limits": [
            {"person": world.manager.username, "amount": "100.00", "currency": "EUR"},
            {"amount": "9000.00", "currency": "EUR"},
        ],
    }
    answer = ask(world, rules)
    assert [(one.number, one.name, one.asks, one.able) for one in answer.levels] == [
        (1, "team", "One manager", 1),
        (2, "level 2", "One manager of the group controllers", 1),
    ]
    over = "This is above the limit of 100.00 EUR for an approval."
    assert said(answer) == {world.second.username: "can", world.manager.username: over}
    assert said(answer, 2) == {
        world.second.username: "can",
        world.manager.username: over,
        world.operator.username: "Only a manager of this organisation may decide this.",
    }
    assert answer.blocked  # one person cannot fill two levels


def test_what_it_says_is_what_a_real_proposal_says(world: World) -> None:
    """Nothing is known to the simulation alone: for each rule set everybody gets the answer that the slip gives."""
    taker = make_person(world.tenant, Role.MANAGER, handle=f"zoe.{world.tenant.slug}")
    group(world, "controllers", world.second)
    lend(world, world.second, taker, most_amount=Decimal("5000"), most_currency="EUR")
    world.decide(world.proposed(), world.manager)
    limits = [
        {"person": world.manager.username, "amount": "100.00", "currency": "EUR"},
        {"workflow": "test-orders", "amount": "5000.00", "currency": "EUR"},
        {"amount": "1.00", "currency": "EUR"},
    ]
    for rules in (
        {"quorum": 2},
        {"four_eyes": False},
        {"levels": [{"group": "controllers"}, {}]},
        {"limits": limits},
        {"limits": [{"amount": "9000.00", "currency": "USD"}], "rates": {"EUR/USD": "2"}},
        {"sums": [{"per": "recipient", "days": 3, "amount": "4800.00", "currency": "EUR"}]},
        {"reauthenticate": "always", "bulk": True},
    ):
        world.policy(**rules)
        proposal = world.proposed(by=world.submitter)
        with reading(world.tenant.pk):
            facts = facts_of(Proposal.objects.select_related("policy", "job").get(pk=proposal.pk))
        told = ask(
            world,
            rules,
            initiator_id=world.submitter.pk,
            recipient=proposal.recipient,
            workflow="test-orders",
        )
        real = {}
        for person in (world.manager, world.second, taker):
            way = facts.way(person.pk)
            lent = way.giver.handle if isinstance(way, Way) and way.giver else ""
            real[person.username] = (
                (f"can for {lent}" if lent else "can") if isinstance(way, Way) else str(way)
            )
        assert said(told) == real, rules
        assert (told.blocked, told.together, told.password) == (
            facts.blocked,
            facts.bulk,
            facts.needs_reentry,
        )


def test_currencies_are_not_compared_without_a_rate(world: World) -> None:
    rules = {"limits": [{"amount": "9000.00", "currency": "EUR"}], "bulk": True}
    answer = ask(world, rules, currency="USD")
    assert all("never compared without a rate" in why for why in said(answer).values())
    assert answer.blocked
    with_rate = ask(world, {**rules, "rates": {"USD/EUR": "0.92"}}, currency="USD")
    assert set(said(with_rate).values()) == {"can"}
    assert (with_rate.blocked, with_rate.together, with_rate.password) == (False, True, False)
    asks = {"reauthenticate": "above", "reauthenticate_above": {"amount": "9000.00", "currency": "EUR"}}
    assert ask(world, asks, currency="USD").password
    assert not ask(world, asks).password


def test_the_initiator_lent_authority_and_absences_count_at_the_moment_asked_about(world: World) -> None:
    outsider = make_person(world.tenant, Role.MANAGER, handle=f"zoe.{world.tenant.slug}")
    group(world, "controllers", world.second)
    lend(world, world.second, outsider, ends_at=timezone.now() + HOUR)
    absent(world, world.second)
    rules = {"levels": [{"group": "controllers"}]}
    now = ask(world, rules, initiator_id=world.manager.pk)
    assert said(now)[outsider.username] == f"can for {world.second.username}"
    assert [p.away for p in now.levels[0].people if p.handle == world.second.username] == [True]
    assert "You started this job" in said(now)[world.manager.username]
    assert not now.blocked
    later = ask(world, rules, at=timezone.now() + 2 * HOUR)
    assert "needs the group controllers" in said(later)[outsider.username]
    assert not any(p.away for p in later.levels[0].people)


def test_times_and_escalation_are_told(world: World) -> None:
    at = datetime.fromisoformat("2030-03-30T12:00:00+00:00")
    rules = {
        "levels": [{"group": "nobody"}],
        "expires_after_minutes": 120,
        "reminders": [{"before_expiry_minutes": 30}, {"after_minutes": 500}],
        "escalation": [
            {"after_minutes": 30, "role": "admin"},
            {"after_minutes": 60, "person": world.manager.username, "may_decide": True},
        ],
    }
    answer = ask(world, rules, at=at)
    assert answer.expires_at == at + 2 * HOUR
    assert [(m.at - at, m.what, m.left_out) for m in answer.moments] == [
        (HOUR / 2, "every admin is told", ""),
        (HOUR, f"{world.manager.username} is told and may sign", ""),
        (HOUR * 1.5, "Whoever can sign is reminded", ""),
        (timedelta(minutes=500), "Whoever can sign is reminded", "it is not before the expiry"),
    ]
    later = {p.handle: p.later for p in answer.levels[0].people}
    assert later == {
        world.manager.username: f"once it is escalated to {world.manager.username}",
        world.second.username: "",
    }


def test_a_policy_that_asks_nobody_says_so_and_what_its_sums_leave(world: World) -> None:
    rules = {"waives_approval": True, "sums": [{"amount": "5000.00", "currency": "EUR"}]}
    assert (ask(world, rules).over, ask(world, rules).levels, ask(world, rules).waived) == ("", [], True)
    assert "the policy allows 5,000.00 EUR" in ask(world, rules, amount=Decimal("5000.01")).over


def test_sums_count_what_is_reserved_and_asking_reserves_nothing(world: World) -> None:
    rules = {"sums": [{"amount": "5000.00", "currency": "EUR"}]}
    world.policy(**rules)
    for _ in range(2):
        assert set(said(ask(world, rules)).values()) == {"can"}
    world.decide(world.proposed(), world.manager)
    assert all("would be 9,600.00 EUR" in why for why in said(ask(world, rules)).values())


def outlook(world: World, rules: dict[str, Any]) -> tuple[str, dict[str, str]]:
    with reading(world.tenant.pk):
        found = foresee("test-policy", read_rules(rules))
    return found.summary, {one.label: one.sentence for one in found.changed}


def test_a_draft_tells_what_it_would_do_to_what_is_open(world: World) -> None:
    assert outlook(world, {"quorum": 2}) == ("No proposal is open under it.", {})
    first, second = world.proposed(), world.proposed()
    world.decide(first, world.manager)
    summary, changed = outlook(world, {"quorum": 2})
    assert summary == ("Of 2 open proposals, 1 would need more signatures, 1 would go back to its approvers.")
    assert changed == {
        first.label: "It is approved, and would go back: it needs one more signature.",
        second.label: "It would need one more signature.",
    }
    assert outlook(world, {"quorum": 3}) == (
        "Of 2 open proposals, 2 would be blocked.",
        dict.fromkeys((first.label, second.label), "Nobody who is at work could complete it."),
    )
    assert outlook(world, {"bulk": True}) == ("Nothing changes for 2 open proposals.", {})
    narrow = {"limits": [{"person": world.manager.username, "amount": "9000.00", "currency": "EUR"}]}
    assert outlook(world, narrow)[1] == {second.label: "One person could no longer sign it."}
    with reading(world.tenant.pk):
        assert Proposal.objects.filter(approved_at__isnull=True).count() == 1


def test_of_two_admins_who_looked_at_the_same_revision_one_is_told(world: World) -> None:
    admins = [make_person(world.tenant, Role.ADMIN) for _ in range(2)]

    def write(by: Person, expected: int, quorum: int = 2) -> Any:
        from access.roles import Actor, ActorKind

        return write_policy(
            tenant_id=world.tenant.pk,
            name="test-policy",
            rules=read_rules({"quorum": quorum}),
            created_by=Actor(ActorKind.ADMIN, by.username, by.pk),
            now=timezone.now(),
            expected=expected,
        )

    found = at_once(lambda: write(admins[0], 1), lambda: write(admins[1], 1))
    assert sorted(type(one).__name__ for one in found) == ["Policy", "PolicyWrittenMeanwhile"]
    with pytest.raises(PolicyWrittenMeanwhile, match=r"wrote revision 2 of .* looking at revision 1"):
        write(admins[0], 1)
    with pytest.raises(PolicyWrittenMeanwhile, match="looking at none"):
        write(admins[0], 0)
    assert write(admins[0], 2, 3).revision == 3


def test_names_that_are_gone_are_said(world: World) -> None:
    group(world, "controllers", world.second)
    group(world, "empty")
    rules = read_rules(
        {
            "levels": [{"group": "controllers", "quorum": 2}],
            "limits": [
                {"person": world.manager.username, "amount": "1.00", "currency": "EUR"},
                {"person": world.operator.username, "amount": "1.00", "currency": "EUR"},
                {"group": "empty", "amount": "1.00", "currency": "EUR"},
            ],
            "escalation": [{"after_minutes": 5, "group": "gone"}],
        }
    )
    with reading(world.tenant.pk):
        before = warnings(rules)
    assert before == [
        f"{world.operator.username} is named and no manager, so what is said of them has no effect.",
        "The group empty is empty.",
        "The group gone is named and not there.",
        "Level 1 asks for 2, and 1 could sign there.",
    ]
    world.end_role(world.manager)
    with reading(world.tenant.pk):
        assert f"{world.manager.username} is named and no longer here" in warnings(rules)[0]
