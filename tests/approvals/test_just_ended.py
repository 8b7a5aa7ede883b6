"""Authority, or time, that ends between the look and the insert of a decision: a refusal with a sentence, never an error."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import connections

from access.models import Person
from access.refusals import Refused
from access.tenancy import acting, reading
from approvals.actions import refusing
from approvals.actions.refusing import SomebodyElseIsDeciding
from approvals.models import Decision, Refusal
from approvals.objections import NotAnApprover
from approvals.reasons import ReasonMissing
from tests.approvals.test_authority import group, lend
from tests.approvals.world import World

pytestmark = pytest.mark.django_db(transaction=True)


def of_a_giver(world: World) -> Person:
    """Only a controller signs, and the second manager acts for one."""
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.manager, world.second)
    return world.second


ENDS: dict[str, tuple[Callable[[World], Person], str]] = {
    "the role": (
        lambda world: world.manager,
        "UPDATE access_membership SET ended_at = now() WHERE person_id = %(manager)s",
    ),
    "the account": (
        lambda world: world.manager,
        "UPDATE access_person SET is_active = false WHERE id = %(manager)s",
    ),
    "what was lent": (
        of_a_giver,
        "UPDATE access_delegation SET revoked_at = now() WHERE giver_id = %(manager)s",
    ),
    "the role of who lent it": (
        of_a_giver,
        "UPDATE access_membership SET ended_at = now() WHERE person_id = %(manager)s",
    ),
}


@pytest.mark.parametrize("what", ENDS)
def test_what_ends_while_somebody_signs_refuses_them_with_a_sentence(world: World, what: str) -> None:
    """The signer has read everything and waits to insert, behind a lock of the table. What it signs with ends, and the
    lock is let go: the database looks again, and refuses."""
    prepare, end = ENDS[what]
    signer, proposal = prepare(world), world.proposed()
    with psycopg.connect(os.environ["DATABASE_URL"]) as other, ThreadPoolExecutor(1) as pool:
        other.execute("LOCK TABLE approvals_decision IN SHARE ROW EXCLUSIVE MODE")
        signing = pool.submit(_decide_and_close, world, proposal, signer)
        _wait_until_blocked_by(other.info.backend_pid)
        other.execute(end, {"manager": world.manager.pk})
        other.commit()
        refused = signing.result()
    assert isinstance(refused, NotAnApprover)
    assert "has just ended" in str(refused)
    with reading(world.tenant.pk):
        assert (Decision.objects.count(), Refusal.objects.count()) == (0, 1)
    assert world.state(proposal) == "AWAITING_APPROVAL"


def _decide_and_close(world: World, proposal: Any, person: Person) -> object:
    try:
        return world.decide(proposal, person)
    except Refused as refused:
        return refused
    finally:
        connections.close_all()


def _wait_until_blocked_by(pid: int) -> None:
    until = time.monotonic() + 10
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as looking:
        blocked = "SELECT FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
        while looking.execute(blocked, [pid]).fetchone() is None:
            assert time.monotonic() < until, "nobody waits"


def test_a_refusal_that_cannot_be_kept_for_a_lock_says_so(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody holds the job for longer than a person waits; a rejection without a reason is refused before any lock."""
    proposal = world.proposed()
    monkeypatch.setattr(refusing, "acting", partial(acting, lock_timeout_ms=50))
    with psycopg.connect(os.environ["DATABASE_URL"]) as other:
        other.execute("SELECT FROM workflows_job WHERE id = %s FOR UPDATE", [proposal.job_id])
        with pytest.raises(SomebodyElseIsDeciding):
            world.decide(proposal, world.manager, "reject", reason="")
    with pytest.raises(ReasonMissing):
        world.decide(proposal, world.manager, "reject", reason="")
