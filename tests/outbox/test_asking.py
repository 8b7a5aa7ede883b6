"""Who is told that a proposal waits: those who could sign the level that is open, each of them once a level."""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from access.models import Person
from access.roles import Role
from approvals.actions.withdraw import withdraw_approval
from approvals.models import Proposal
from tests.approvals.test_authority import group, lend
from tests.approvals.test_looking import away, walk
from tests.approvals.test_schedule import ago, run
from tests.approvals.world import World
from tests.outbox.telling import messages
from tests.support import make_person


@pytest.fixture(autouse=True)
def a_mail_server_is_set(settings: Any) -> None:
    """None is spoken to: no dispatcher runs in these tests."""
    settings.EMAIL_HOST = "mail.example.test"


class Told:
    """What was told since the last look."""

    def __init__(self, world: World) -> None:
        self.world, self.seen = world, 0

    def news(self, event: str = "approval.asked") -> list[int | None]:
        rows = [m for m in messages(self.world.tenant) if m.pk > self.seen]
        self.seen = rows[-1].pk if rows else self.seen
        return [m.person_id for m in rows if m.event == event]


def take_back(world: World, proposal: Proposal, person: Person) -> None:
    withdraw_approval(
        tenant_id=world.tenant.pk, proposal_id=proposal.pk, person_id=person.pk, now=timezone.now()
    )


def test_only_who_could_sign_the_open_level_is_asked_and_once_a_level(world: World) -> None:
    """Six managers: one has the wrong limit, one a hand in it, one is away and lent their authority to another."""
    mia, max_ = world.manager, world.second
    cara, away_, small, starter = (make_person(world.tenant, Role.MANAGER) for _ in range(4))
    group(world, "controllers", cara, away_)
    world.policy(
        levels=[{}, {"group": "controllers", "name": "controller"}],
        limits=[
            {"person": small.username, "amount": "100", "currency": "EUR"},
            {"amount": "50000", "currency": "EUR"},
        ],
    )
    lend(world, away_, max_)
    away(world, away_)
    told = Told(world)
    proposal = world.proposed(by=starter)
    assert told.news() == sorted([mia.pk, max_.pk, cara.pk])
    world.decide(proposal, mia)
    # Of the group one is away; max acts for them. Mia has signed, and belongs to no controllers.
    assert told.news() == sorted([max_.pk, cara.pk])
    # The first level opens again: everybody who could sign it was told of it.
    take_back(world, proposal, mia)
    world.decide(proposal, mia)
    assert told.news() == []
    world.decide(proposal, cara)
    told.news()
    # It was complete, so nobody waited for it: whoever can sign what is open again is told anew.
    take_back(world, proposal, cara)
    assert told.news() == sorted([max_.pk, cara.pk])


def test_nobody_is_asked_for_what_nobody_could_sign_until_somebody_can(world: World) -> None:
    """The one who may sign is away when it is asked, so that an admin has a case; then a second one comes."""
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    away(world, world.manager)
    told = Told(world)
    world.proposed()
    assert told.news() == []
    joined = make_person(world.tenant, Role.MANAGER)
    group(world, "controllers", joined)
    walk(world)
    assert told.news() == [joined.pk]


def test_a_level_that_todays_policy_adds_is_asked_when_those_before_it_are_signed(world: World) -> None:
    cara = make_person(world.tenant, Role.MANAGER)
    group(world, "controllers", cara)
    told = Told(world)
    proposal = world.proposed()
    assert told.news() == sorted([world.manager.pk, world.second.pk, cara.pk])
    world.policy(levels=[{}, {"group": "controllers"}])
    world.decide(proposal, world.second)
    assert told.news() == [cara.pk]


def test_whom_it_is_escalated_to_is_not_asked_as_well(world: World) -> None:
    """Nobody is in the group, so nobody was asked; the escalation lets one sign, and says so."""
    group(world, "controllers")
    step = {"after_minutes": 30, "person": world.second.username, "may_decide": True}
    world.policy(levels=[{"group": "controllers"}], escalation=[step])
    proposal = world.proposed(now=ago(31))
    run(world, proposal)
    assert world.events(proposal)[-1] == "approver.found"
    told = Told(world)
    assert (told.news("approval.asked"), Told(world).news("approval.escalated")) == ([], [world.second.pk])
