"""The whole way with a worker's engine: it is called at a moment, and finds what the triggers left behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.utils import timezone

from access.models import Absence
from access.tenancy import acting
from approvals.models import Proposal
from tests.approvals.test_looking import away, open_case
from tests.approvals.world import World
from tests.support import eventually, running_engine
from workflows.engine.engine import Engine

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.long]


@pytest.fixture
def engine(world: World) -> Iterator[Engine]:
    with running_engine(2) as running:
        yield running


def sees(world: World, proposal: Proposal, event: str) -> None:
    eventually(lambda: event in world.events(proposal), what=event)


def test_a_worker_reminds_and_finds_out_that_nobody_is_left_and_that_somebody_is_back(
    world: World, engine: Engine
) -> None:
    world.policy(reminders=[{"after_minutes": 1}])
    proposal = world.proposed(now=timezone.now() - timedelta(seconds=59))
    sees(world, proposal, "approval.reminded")
    given = world.evidence(proposal, "approval.reminded")
    assert given == {"proposal": proposal.pk, "step": 1, "told": 0}
    away(world, world.manager, world.second)
    sees(world, proposal, "approver.missing")
    assert open_case(world, proposal) is not None
    with acting(world.tenant.pk):
        Absence.objects.update(ended_at=timezone.now())
    sees(world, proposal, "approver.found")
    assert open_case(world, proposal) is None
