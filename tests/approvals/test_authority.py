"""Levels, groups, lent authority, absences, sums and the password again: each rule refuses what it is there for."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from access import reentry
from access.models import Absence, Delegation, Group, GroupMember, Membership, Person
from access.refusals import Refused
from access.roles import Role
from access.tenancy import acting, reading
from approvals.actions.asked import PasswordNeeded
from approvals.actions.withdraw import withdraw_approval
from approvals.facts import facts_of
from approvals.models import Decision, Proposal, Reservation
from approvals.objections import FourEyes, NotYourLevel, OverLimit, OverSum, Twice
from approvals.standing import checks_of
from tests.approvals.world import World, draft
from tests.support import at_once, make_person
from tests.support import make_person as make_person_with_password
from workflows.states import JobState

HOUR = timedelta(hours=1)


def group(world: World, name: str, *people: Person) -> None:
    with acting(world.tenant.pk):
        made, _ = Group.objects.get_or_create(tenant=world.tenant, name=name)
        for person in people:
            GroupMember.objects.create(tenant=world.tenant, group=made, person=person)


def lend(world: World, giver: Person, taker: Person, **changes: Any) -> Delegation:
    now = timezone.now()
    with acting(world.tenant.pk):
        return Delegation.objects.create(
            tenant=world.tenant,
            giver=giver,
            taker=taker,
            **{
                "reason": "holiday",
                "starts_at": now - HOUR,
                "ends_at": now + HOUR,
                "given_at": now,
                "given_by": giver.username,
                **changes,
            },
        )


def absent(world: World, person: Person) -> None:
    now = timezone.now()
    with acting(world.tenant.pk):
        Absence.objects.create(
            tenant=world.tenant,
            person=person,
            starts_at=now - HOUR,
            ends_at=now + HOUR,
            noted_at=now,
            noted_by=person.username,
        )


def failing(world: World, proposal: Proposal) -> list[str]:
    with reading(world.tenant.pk):
        fresh = Proposal.objects.select_related("policy", "job").get(pk=proposal.pk)
        return [check.name for check in checks_of(facts_of(fresh)) if not check.ok]


def blocked(world: World, proposal: Proposal) -> bool:
    with reading(world.tenant.pk):
        return facts_of(Proposal.objects.select_related("policy", "job").get(pk=proposal.pk)).blocked


def one(proposal: Proposal) -> Decision:
    return Decision.objects.get(proposal=proposal)


def test_levels_sign_in_order_and_each_asks_for_its_group(world: World) -> None:
    group(world, "controllers", world.second)
    world.policy(levels=[{"name": "line"}, {"name": "controlling", "group": "controllers"}])
    third = make_person(world.tenant, Role.MANAGER)
    proposal = world.proposed()
    assert "of controlling" in world.decide(proposal, world.manager).sentence
    with pytest.raises(NotYourLevel, match="controlling's turn"):
        world.decide(proposal, third)
    done = world.decide(proposal, world.second)
    assert done.job_state == JobState.READY_TO_COMMIT
    with reading(world.tenant.pk):
        assert sorted(Decision.objects.values_list("level", flat=True)) == [1, 2]
    assert failing(world, proposal) == []


def test_a_level_that_todays_policy_adds_has_to_sign_too(world: World) -> None:
    proposal = world.proposed()
    group(world, "controllers", world.second)
    world.policy(levels=[{"name": "line"}, {"name": "controlling", "group": "controllers"}])
    first = world.decide(proposal, world.manager)
    assert first.job_state == JobState.AWAITING_APPROVAL
    assert world.decide(proposal, world.second).job_state == JobState.READY_TO_COMMIT


def test_leaving_the_group_before_the_send_strikes_the_signature_out(world: World) -> None:
    group(world, "controllers", world.second)
    world.policy(levels=[{"group": "controllers"}])
    proposal = world.proposed()
    world.decide(proposal, world.second)
    with acting(world.tenant.pk):
        GroupMember.objects.filter(person=world.second).update(ended_at=timezone.now())
    assert failing(world, proposal) == ["Authority", "Policy"]


def test_lent_authority_signs_for_its_giver_and_says_so(world: World) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    lent = lend(world, world.manager, world.second)
    proposal = world.proposed()
    world.decide(proposal, world.second)
    with reading(world.tenant.pk):
        decision = one(proposal)
    assert (decision.person_id, decision.on_behalf_of_id, decision.delegation_id) == (
        world.second.pk,
        world.manager.pk,
        lent.pk,
    )
    with acting(world.tenant.pk):
        Delegation.objects.update(revoked_at=timezone.now(), revoked_by="x")
    assert failing(world, proposal) == ["Authority", "Policy"]


@pytest.mark.parametrize(
    "changes",
    [
        {"ends_at": timezone.now() - timedelta(seconds=1), "starts_at": timezone.now() - HOUR},
        {"starts_at": timezone.now() + HOUR, "ends_at": timezone.now() + 2 * HOUR},
        {"revoked_at": timezone.now(), "revoked_by": "x"},
        {"policies": "another-policy"},
    ],
)
def test_lent_authority_holds_for_its_time_and_its_policies_alone(world: World, changes: Any) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.manager, world.second, **changes)
    with pytest.raises(NotYourLevel):
        world.decide(world.proposed(), world.second)


def test_a_delegate_of_a_delegate_has_nothing(world: World) -> None:
    third = make_person(world.tenant, Role.MANAGER)
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.manager, world.second)
    lend(world, world.second, third)
    with pytest.raises(NotYourLevel):
        world.decide(world.proposed(), third)


def test_whoever_started_it_cannot_sign_under_lent_authority_nor_lend_it(world: World) -> None:
    with acting(world.tenant.pk):
        Membership.objects.create(tenant=world.tenant, person=world.submitter, role=Role.MANAGER)
    lend(world, world.manager, world.submitter)
    proposal = world.proposed()
    with pytest.raises(FourEyes):
        world.decide(proposal, world.submitter)
    group(world, "controllers", world.submitter)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.submitter, world.second)
    with pytest.raises((FourEyes, NotYourLevel)):
        world.decide(world.proposed(), world.second)


def test_a_person_and_their_delegate_count_once(world: World) -> None:
    third = make_person(world.tenant, Role.MANAGER)
    group(world, "controllers", world.manager, third)
    world.policy(levels=[{"group": "controllers", "quorum": 2}])
    lend(world, world.manager, world.second)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    with pytest.raises((Twice, NotYourLevel)):
        world.decide(proposal, world.second)
    assert world.decide(proposal, third).job_state == JobState.READY_TO_COMMIT


@pytest.mark.parametrize("verdict", ["approve", "reject", "request changes"])
def test_whoever_lent_what_was_signed_with_is_told_so_whatever_they_say_now(
    world: World, verdict: str
) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers", "quorum": 2}])
    lend(world, world.manager, world.second)
    proposal = world.proposed()
    world.decide(proposal, world.second)
    with pytest.raises(Twice, match="with the authority that you lent"):
        world.decide(proposal, world.manager, verdict)
    assert (world.state(proposal), world.events(proposal)[-1]) == ("AWAITING_APPROVAL", "decision.refused")


def test_a_cap_that_no_currency_has_still_caps(world: World) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.manager, world.second, most_amount="4799.9999", most_currency="EUR")
    with pytest.raises((OverLimit, NotYourLevel)):
        world.decide(world.proposed(), world.second)


def test_lending_never_raises_a_limit(world: World) -> None:
    names = {"rich": world.manager.username, "poor": world.second.username}
    for by, limit in (("rich", "10000.00"), ("poor", "1000.00")):
        group(world, "controllers", world.manager) if by == "rich" else None
        world.policy(
            levels=[{"group": "controllers"}],
            limits=[
                {"person": names["rich"], "amount": "10000.00", "currency": "EUR"},
                {"person": names["poor"], "amount": limit, "currency": "EUR"},
            ],
        )
        if by == "rich":
            lend(world, world.manager, world.second, most_amount="4799.99", most_currency="EUR")
        else:
            lend(world, world.manager, world.second)
        with pytest.raises((OverLimit, NotYourLevel)):
            world.decide(world.proposed(), world.second)
    assert world.decide(world.proposed(), world.manager).job_state == JobState.READY_TO_COMMIT


def test_a_proposal_is_blocked_when_nobody_at_work_could_complete_it(world: World) -> None:
    proposal = world.proposed()
    assert not blocked(world, proposal)
    absent(world, world.manager)
    absent(world, world.second)
    assert blocked(world, proposal)
    assert world.decide(proposal, world.second).job_state == JobState.READY_TO_COMMIT


def test_two_seats_for_the_same_person_are_one_too_many(world: World) -> None:
    group(world, "controllers", world.second)
    world.policy(levels=[{"group": "controllers"}, {"group": "controllers"}])
    proposal = world.proposed()
    assert blocked(world, proposal)
    group(world, "controllers", world.manager)
    assert not blocked(world, proposal)


def test_a_seat_that_only_a_used_authority_could_take_is_nobodys(world: World) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}, {"group": "controllers"}])
    lend(world, world.manager, world.second)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    assert blocked(world, proposal)


def test_what_is_approved_together_fits_into_the_sum_or_one_waits(world: World) -> None:
    world.policy(sums=[{"per": "recipient", "amount": "9000.00", "currency": "EUR"}])
    first, second = world.proposed(), world.proposed()
    results = at_once(lambda: world.decide(first, world.manager), lambda: world.decide(second, world.second))
    refused = [r for r in results if isinstance(r, Refused)]
    assert [type(r) for r in refused] == [OverSum]
    assert "9,600.00 EUR" in str(refused[0])
    with reading(world.tenant.pk):
        assert Reservation.objects.filter(released_at__isnull=True).count() == 1


def test_what_is_taken_back_leaves_its_room_to_others(world: World) -> None:
    world.policy(sums=[{"per": "policy", "days": 2, "amount": "5000.00", "currency": "EUR"}])
    first, second = world.proposed(), world.proposed(draft(recipient="Somebody else"))
    world.decide(first, world.manager)
    with pytest.raises(OverSum):
        world.decide(second, world.second)
    withdraw_approval(
        tenant_id=world.tenant.pk, proposal_id=first.pk, person_id=world.manager.pk, now=timezone.now()
    )
    assert world.decide(second, world.second).job_state == JobState.READY_TO_COMMIT


def test_sums_of_an_approver_are_of_whose_authority_was_used(world: World) -> None:
    world.policy(sums=[{"per": "approver", "amount": "5000.00", "currency": "EUR"}])
    world.decide(world.proposed(), world.manager)
    again = world.proposed()
    with pytest.raises(OverSum):
        world.decide(again, world.manager)
    assert world.decide(again, world.second).job_state == JobState.READY_TO_COMMIT


def test_a_sum_that_was_lowered_stops_the_later_send_and_not_the_earlier(world: World) -> None:
    world.policy(sums=[{"amount": "10000.00", "currency": "EUR"}])
    first, second = world.proposed(), world.proposed()
    world.decide(first, world.manager)
    world.decide(second, world.manager)
    world.policy(sums=[{"amount": "5000.00", "currency": "EUR"}])
    assert failing(world, first) == []
    assert failing(world, second) == ["Sums"]


def enter(person: Person, password: str, now: datetime) -> None:
    reentry.enter(person_id=person.pk, password=password, session=reentry.session_digest("s-1"), now=now)


def test_the_password_is_asked_for_again_and_counts_for_its_session_and_time(world: World) -> None:
    world.policy(reauthenticate="always")
    proposal, now = world.proposed(), timezone.now()
    mia = make_person_with_password(world.tenant, Role.MANAGER)
    session = reentry.session_digest("s-1")
    with pytest.raises(PasswordNeeded):
        world.decide(proposal, mia, session=session)
    with pytest.raises(reentry.WrongPassword):
        enter(mia, "correct donkey", now)
    with pytest.raises(PasswordNeeded):
        world.decide(proposal, mia, session=session)
    enter(mia, "correct horse", now - reentry.COUNTS_FOR)
    with pytest.raises(PasswordNeeded):
        world.decide(proposal, mia, session=session)
    enter(mia, "correct horse", now)
    with pytest.raises(PasswordNeeded):
        world.decide(proposal, mia, session=reentry.session_digest("s-2"))
    world.decide(proposal, mia, session=session)
    with reading(world.tenant.pk):
        assert one(proposal).authenticated_at == now


def test_wrong_passwords_run_out(world: World) -> None:
    mia, now = make_person_with_password(world.tenant, Role.MANAGER), timezone.now()
    for _ in range(reentry.WRONG_TRIES):
        with pytest.raises(reentry.WrongPassword):
            enter(mia, "guess", now)
    with pytest.raises(reentry.TooManyWrong):
        enter(mia, "correct horse", now + timedelta(minutes=1))
    enter(mia, "correct horse", now + reentry.WITHIN)
