"""The frozen and today's revision of a policy: the stricter holds, rule by rule, whichever of the two it is."""

from __future__ import annotations

from typing import Any

import pytest

from access.models import Person
from access.roles import Role
from access.tenancy import acting
from approvals.facts import CONTRIBUTING
from approvals.models import Proposal
from tests.approvals.test_authority import group
from tests.approvals.test_rules_bite import approves, world_actor
from tests.approvals.world import World
from tests.support import make_person
from workflows import journal
from workflows.locks import lock_job

pytestmark = pytest.mark.django_db(transaction=True)
LOW: dict[str, Any] = {"amount": "1000.00", "currency": "EUR"}
LAX: dict[str, Any] = {"four_eyes": False, "bulk": True}
STRICT: dict[str, dict[str, Any]] = {
    "four eyes": {"four_eyes": True},
    "bulk": {"bulk": False},
    "quorum": {"quorum": 2},
    "level": {"levels": [{"group": "controllers"}]},
    "limit": {"limits": [LOW]},
    "sum": {"sums": [LOW]},
    "password": {"reauthenticate": "above", "reauthenticate_above": LOW},
}


@pytest.fixture
def starter(world: World) -> Person:
    """Somebody who starts a job and signs it, which the lax policy allows."""
    return make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)


@pytest.mark.parametrize("tightened", [True, False])
def test_the_stricter_of_both_revisions_holds(world: World, starter: Person, tightened: bool) -> None:
    group(world, "controllers", world.second)

    def asked_under(rules: dict[str, Any]) -> Proposal:
        revisions = [LAX, {**LAX, **rules}]
        frozen, current = revisions if tightened else reversed(revisions)
        world.policy(**frozen)
        proposal = world.proposed(by=starter)
        world.policy(**current)
        return proposal

    gone_through = [
        rule for rule in STRICT if approves(world, asked_under(STRICT[rule]), starter, door="bulk")
    ]
    assert gone_through == []
    assert approves(world, asked_under({}), starter, door="bulk"), "what neither forbids"


def test_whoever_had_a_hand_in_it_signs_nothing_of_it(world: World) -> None:
    both = make_person(world.tenant, Role.OPERATOR, Role.MANAGER)
    signed = []
    for event in sorted({*CONTRIBUTING} - {"job.received"}):
        proposal = world.proposed()
        with acting(world.tenant.pk):
            job = lock_job(proposal.job_id)
            journal.record(job=job, event=event, actor=world_actor(both), evidence={"item": 0})
        if approves(world, proposal, both):
            signed.append(event)
    assert signed == []
    assert approves(world, world.proposed(), both), "where they had no hand in it"
