"""Attempts to have something decided that may not be, each through every door: the page, the API and bulk."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from access.models import Membership, Person
from access.roles import Role
from access.tenancy import acting, reading
from approvals.actions.repropose import repropose_job
from approvals.models import Proposal, Reservation
from tests.approvals.doors import DOORS, decided, knock, refusals
from tests.approvals.pages import as_person, at, text
from tests.approvals.test_authority import group, lend
from tests.approvals.world import World, draft, make_person
from tests.support import at_once

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.parametrize("door", DOORS)]


@pytest.fixture(autouse=True)
def _bulk_is_allowed(world: World) -> None:
    world.policy(bulk=True)


def test_a_stale_digest_decides_nothing(world: World, door: str) -> None:
    proposal, other = world.proposed(), world.proposed()
    for digest in ("0" * 64, other.digest, proposal.digest.upper()):
        told = knock(door, world, world.manager, proposal, digest=digest)
        assert not told.done, told
    assert (decided(world), set(refusals(world))) == ([], {"StaleProposal"})


def test_the_same_decision_twice_is_one_and_says_when(world: World, door: str) -> None:
    world.policy(bulk=True, quorum=2)
    proposal = world.proposed()
    assert knock(door, world, world.manager, proposal).done
    again = knock(door, world, world.manager, proposal)
    assert again.done
    if door != "page":
        assert "You approved this already at" in again.words
    other = knock(door, world, world.manager, proposal, "reject")
    assert not other.done
    assert "That stands" in other.words
    assert decided(world) == [(world.manager.username, "approve", door)]


@pytest.mark.parametrize("verdicts", [("approve", "approve"), ("approve", "reject")])
def test_two_people_at_once_decide_once(world: World, door: str, verdicts: tuple[str, str]) -> None:
    """Both post at the same instant; they queue on the job's row, and the second reads what the first committed."""
    rounds(world, door, verdicts, 3)


@pytest.mark.long
def test_a_hundred_rounds_of_two_people_at_once_decide_once_each(world: World, door: str) -> None:
    rounds(world, door, ("approve", "reject"), 100)


def rounds(world: World, door: str, verdicts: tuple[str, str], count: int) -> None:
    people = (world.manager, world.second)
    clients = [as_person(p) for p in people]
    for _ in range(count):
        proposal = world.proposed()
        calls = [
            partial(knock, door, world, person, proposal, verdict, client=client)
            for person, client, verdict in zip(people, clients, verdicts, strict=True)
        ]
        told = at_once(*calls)
        assert sorted(t.done for t in told) == [False, True], told
        (loser,) = [t for t in told if not t.done]
        winner = people[[t.done for t in told].index(True)]
        assert winner.username in loser.words
        assert world.state(proposal) in ("READY_TO_COMMIT", "CANCELLED")
    assert len(decided(world)) == count


def test_whoever_lost_the_role_a_second_ago_decides_nothing(world: World, door: str) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    if door == "bulk":
        chosen = client.post(at(world, "approval-choose"), {"chosen": f"{proposal.pk}:{proposal.digest}"})
    world.end_role(world.manager)
    if door == "bulk":
        form = {"verdict": "approve", "seen": proposal.pk}
        assert client.post(chosen.headers["Location"] + "decision/", form).status_code == 404
    assert not knock(door, world, world.manager, proposal, client=client).done
    assert decided(world) == []


def both_roles(world: World) -> Person:
    with acting(world.tenant.pk):
        Membership.objects.create(tenant=world.tenant, person=world.submitter, role=Role.MANAGER)
    return world.submitter


def test_the_initiator_decides_nothing_under_anybodys_authority(world: World, door: str) -> None:
    """By their own account with what a manager lent, and by a second account that was lent theirs."""
    initiator, second_account = both_roles(world), make_person(world.tenant, Role.MANAGER)
    group(world, "controllers", world.manager, initiator)
    world.policy(bulk=True, levels=[{"group": "controllers"}])
    lend(world, world.manager, initiator)
    lend(world, initiator, second_account)
    proposal = world.proposed()
    assert not knock(door, world, initiator, proposal).done
    assert not knock(door, world, second_account, proposal).done
    assert decided(world) == []


def test_a_delegate_of_a_delegate_decides_nothing(world: World, door: str) -> None:
    third = make_person(world.tenant, Role.MANAGER)
    group(world, "controllers", world.manager)
    world.policy(bulk=True, levels=[{"group": "controllers"}])
    lend(world, world.manager, world.second)
    lend(world, world.second, third)
    proposal = world.proposed()
    assert not knock(door, world, third, proposal).done
    assert decided(world) == []
    assert knock(door, world, world.second, proposal).done


def test_another_tenants_proposal_is_not_there(world: World, door: str) -> None:
    proposal, other = world.proposed(), World.make(bulk=True)
    statuses = {knock(door, world, other.manager, proposal, under=w).status for w in (world, other)}
    # In bulk a number that is not there is no choice.
    assert statuses <= {404, 422}
    assert (decided(world), decided(other)) == ([], [])


def test_a_second_after_its_expiry_it_is_too_late(world: World, door: str) -> None:
    """Frozen so that its time ended a second ago; nothing has looked at it since."""
    world.policy(bulk=True, expires_after_minutes=60)
    proposal = world.proposed(now=timezone.now() - timedelta(minutes=60, seconds=1))
    told = knock(door, world, world.manager, proposal)
    assert not told.done
    assert "expired" in told.words
    assert (decided(world), refusals(world)) == ([], ["Expired"])


def test_forged_fields_say_nothing(world: World, door: str) -> None:
    proposal = world.proposed()
    names = ("person", "person_id", "approved_by", "decided_by", "on_behalf_of", "door", "authenticated_by")
    told = knock(door, world, world.manager, proposal, forged=dict.fromkeys(names, str(world.second.pk)))
    if door == "API":
        assert (told.status, decided(world)) == (422, [])
        assert [name for name in names if f'"{name}"' not in told.words] == []
    else:
        assert decided(world) == [(world.manager.username, "approve", door)]


def test_a_replayed_answer_to_an_earlier_question_decides_nothing(world: World, door: str) -> None:
    """Approved yesterday's; sent back; proposed again. The same form again is about what is over."""
    first = world.proposed()
    world.decide(first, world.second, "request changes", reason="Look again")
    again = repropose_job(
        tenant_id=world.tenant.pk, job_id=first.job_id, person_id=world.submitter.pk, now=timezone.now()
    )
    assert again.proposal_id
    second = world.proposal(first.__class__(pk=again.proposal_id))
    assert not knock(door, world, world.manager, first).done
    assert not knock(door, world, world.manager, second, digest=first.digest).done
    assert [verdict for _, verdict, _ in decided(world)] == ["request changes"]
    assert knock(door, world, world.manager, second).done


def test_two_proposals_that_only_fit_alone_are_not_both_approved(world: World, door: str) -> None:
    """Of one recipient, approved in the same instant by two people: the sum is read behind its lock."""
    world.policy(bulk=True, sums=[{"per": "recipient", "amount": "9000.00", "currency": "EUR"}])
    first, second = world.proposed(), world.proposed()
    told = at_once(
        lambda: knock(door, world, world.manager, first), lambda: knock(door, world, world.second, second)
    )
    assert sorted(t.done for t in told) == [False, True], told
    with reading(world.tenant.pk):
        assert Reservation.objects.filter(released_at__isnull=True).count() == 1


STRICTER: dict[str, dict[str, Any]] = {
    "limit": {"limits": [{"amount": "100.00", "currency": "EUR"}]},
    "level": {"levels": [{}, {"group": "controllers"}]},
    "password": {"reauthenticate": "always"},
    "quorum": {"quorum": 2},
}


@pytest.mark.parametrize("rule", STRICTER)
def test_a_policy_that_changed_between_page_and_post_holds(world: World, door: str, rule: str) -> None:
    proposal, client = world.proposed(), as_person(world.manager)
    assert "Approve and sign" in text(client.get(at(world, "approval", proposal)))
    group(world, "controllers", world.second)
    world.policy(bulk=True, **STRICTER[rule])
    told = knock(door, world, world.manager, proposal, client=client)
    assert told.done is (rule in ("quorum", "level")), told
    assert world.state(proposal) == "AWAITING_APPROVAL"


def test_a_policy_that_no_longer_allows_bulk_holds_between_page_and_post(world: World, door: str) -> None:
    proposal = world.proposed(draft())
    world.policy(bulk=False)
    told = knock(door, world, world.manager, proposal)
    assert told.done is (door != "bulk"), told
    if door == "bulk":
        assert (decided(world), refusals(world)) == ([], ["NotInBulk"])
        assert "by itself" in told.words


def test_reading_changes_nothing_of_a_proposal(world: World, door: str) -> None:
    proposal = world.proposed()
    before = Proposal.objects.filter(pk=proposal.pk).values
    with reading(world.tenant.pk):
        row = before().get()
    knock(door, world, world.operator, proposal)
    with reading(world.tenant.pk):
        assert before().get() == row
