"""What became of what a person decided, and how approvals went: told from the rows, a proposal counted once."""

from __future__ import annotations

from datetime import timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.roles import Role
from access.tenancy import acting, reading
from approvals.actions.withdraw import withdraw_approval, withdraw_proposal
from approvals.closing import close
from approvals.figures import Figures, by_policy
from approvals.models import Closing, Proposal
from approvals.record import my_decisions
from approvals.standing import send_back_to_approval
from tests.approvals.pages import as_person, at
from tests.approvals.world import World, long_ago
from tests.support import make_person
from workflows.locks import lock_job


def figures(world: World) -> list[Figures]:
    now = timezone.now()
    with reading(world.tenant.pk):
        return by_policy(since=now - timedelta(days=30), until=now + timedelta(minutes=1))


def test_my_decisions_are_listed_newest_first_with_what_became_of_each(world: World) -> None:
    rejected, approved, taken_back, voided = (world.proposed() for _ in range(4))
    world.decide(rejected, world.manager, "reject")
    world.decide(approved, world.manager)
    world.decide(taken_back, world.manager)
    withdraw_approval(
        tenant_id=world.tenant.pk, proposal_id=taken_back.pk, person_id=world.manager.pk, now=timezone.now()
    )
    world.decide(voided, world.manager)
    with acting(world.tenant.pk):
        close(
            Proposal.objects.get(pk=voided.pk), Closing.VOIDED, "the supplier was suspended", timezone.now()
        )
    with reading(world.tenant.pk):
        rows = my_decisions(world.manager.pk).rows
        assert my_decisions(world.second.pk).rows == []
    assert [(r.proposal_id, r.did, r.void, r.became, r.job_state) for r in rows] == [
        (voided.pk, "Approved", False, "was voided", "READY_TO_COMMIT"),
        (taken_back.pk, "Approved", True, "", "AWAITING_APPROVAL"),
        (approved.pk, "Approved", False, "", "READY_TO_COMMIT"),
        (rejected.pk, "Rejected", False, "", "CANCELLED"),
    ]


def test_my_decisions_come_in_pages_that_neither_repeat_nor_leave_out(world: World) -> None:
    proposals = [world.proposed() for _ in range(5)]
    for proposal in proposals:
        world.decide(proposal, world.manager)
    seen: list[int] = []
    after = 0
    with reading(world.tenant.pk):
        while True:
            page = my_decisions(world.manager.pk, after=after, limit=2)
            seen += [r.proposal_id for r in page.rows]
            after = page.next_after
            if not after:
                break
    assert seen == [p.pk for p in reversed(proposals)]


def test_each_proposal_counts_once_as_what_happened_to_it(world: World) -> None:
    assert figures(world) == []
    world.decide(world.proposed(), world.manager)
    world.decide(world.proposed(), world.manager, "reject")
    world.decide(world.proposed(), world.manager, "request changes")
    world.proposed(now=long_ago())
    gone = world.proposed()
    withdraw_proposal(
        tenant_id=world.tenant.pk, proposal_id=gone.pk, person_id=world.submitter.pk, now=timezone.now()
    )
    world.policy(waives_approval=True)
    world.freeze(world.job())
    (one,) = figures(world)
    assert (one.policy, one.asked, one.approved, one.waived) == ("test-policy", 6, 1, 1)
    assert (one.rejected, one.changes, one.taken_back, one.waiting) == (1, 1, 1, 1)
    assert one.middle is not None
    assert one.slow is not None
    assert timedelta(0) < one.middle <= one.slow < timedelta(minutes=5)
    assert one.refused_share == 33


def test_an_approval_that_expired_unsent_counts_as_expired(world: World) -> None:
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    with acting(world.tenant.pk):
        close(Proposal.objects.get(pk=proposal.pk), Closing.EXPIRED, "not sent in time", timezone.now())
    (one,) = figures(world)
    assert (one.approved, one.expired, one.middle) == (0, 1, None)


def test_a_waiver_that_came_to_nothing_counts_once_too(world: World) -> None:
    """One waived approval expires unsent; another goes back to people, who then sign it."""
    world.policy(waives_approval=True)
    expired, signed = world.proposed(), world.proposed()
    world.policy()
    with acting(world.tenant.pk):
        close(Proposal.objects.get(pk=expired.pk), Closing.EXPIRED, "not sent in time", timezone.now())
        job = lock_job(signed.job_id)
        send_back_to_approval(job, Proposal.objects.get(pk=signed.pk), [], "stricter", timezone.now())
    (one,) = figures(world)
    assert (one.asked, one.waived, one.expired, one.waiting, one.approved) == (2, 0, 1, 1, 0)
    world.decide(signed, world.manager)
    (one,) = figures(world)
    assert (one.asked, one.waived, one.expired, one.waiting, one.approved) == (2, 0, 1, 0, 1)


def test_the_pages_show_it_to_members_and_to_nobody_else(world: World) -> None:
    decided = world.proposed()
    world.decide(decided, world.manager)
    client = as_person(world.manager)
    mine, told = client.get(at(world, "approval-mine")), client.get(at(world, "approval-figures"))
    assert (mine.status_code, told.status_code) == (200, 200)
    assert decided.title in mine.content.decode()
    assert "test-policy" in told.content.decode()
    for days in ("7", "365", "0", "-1", "1e3", "٣", "9" * 30):
        assert client.get(at(world, "approval-figures"), {"days": days, "after": days}).status_code == 200
        assert client.get(at(world, "approval-mine"), {"after": days}).status_code == 200
    outsider = as_person(make_person(World.make().tenant, Role.MANAGER))
    assert outsider.get(at(world, "approval-mine")).status_code == 404
    assert outsider.get(at(world, "approval-figures")).status_code == 404


def test_the_list_of_decisions_takes_the_same_queries_for_one_and_for_many(world: World) -> None:
    client, numbers = as_person(world.manager), []
    for _ in range(2):
        world.decide(world.proposed(), world.manager)
        with CaptureQueriesContext(connection) as captured:
            client.get(at(world, "approval-mine"))
        numbers.append(len(captured))
    assert numbers[0] == numbers[1]
