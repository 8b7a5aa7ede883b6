"""People come and go while a proposal waits: it can be completed by somebody at work, or it has a case that is open."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Thread
from typing import Any

import psycopg
import pytest
from django.db import connection, connections
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from access.models import Absence, Delegation, Group, GroupMember, Membership, Person
from access.roles import Role
from access.tenancy import acting, reading
from approvals import looking
from approvals.facts import facts_of
from approvals.locks import lock_job_and_proposal
from approvals.models import LookAgain, Proposal
from reconciliation.models import Case, CaseKind
from tests.approvals.test_authority import group, lend
from tests.approvals.world import World, draft, make_person
from tests.support import at_once, eventually
from workflows.locks import lock_job
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = timedelta(hours=1)


def due(world: World) -> list[tuple[int, int]]:
    """What an engine would find of this tenant now."""
    with reading(world.tenant.pk), connection.cursor() as cursor:
        cursor.execute(looking.FIND)
        return [row for row in cursor.fetchall() if row[0] == world.tenant.pk]


def walk(world: World) -> None:
    """What an engine does with it, until nothing is left. It waits for transactions of other tests, too."""

    def nothing_left() -> bool:
        found = due(world)
        for tenant_id, look_id in found:
            while looking.turn(tenant_id, look_id, "w1"):
                pass
        return not found

    eventually(nothing_left, what="an end of the walk")


def open_case(world: World, proposal: Proposal) -> Case | None:
    with reading(world.tenant.pk):
        cases = Case.objects.filter(
            job_id=proposal.job_id, kind=CaseKind.NO_APPROVER, resolved_at__isnull=True
        )
        assert cases.count() < 2
        return cases.first()


def told(world: World, proposal: Proposal) -> list[str]:
    return [e for e in world.events(proposal) if e.startswith("approver.")]


def away(world: World, *people: Person, begins: timedelta = -HOUR, ends: timedelta = HOUR) -> None:
    now = timezone.now()
    with acting(world.tenant.pk):
        for person in people:
            Absence.objects.create(
                tenant=world.tenant, person=person, starts_at=now + begins, ends_at=now + ends,
                noted_at=now, noted_by=person.username,
            )  # fmt: skip


def change(world: World, update: Callable[[], Any]) -> None:
    with acting(world.tenant.pk):
        update()


def hurry(world: World) -> None:
    """Let the moments to come be now: the rows of the database's triggers, and what they are about, an hour back."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        for table, columns in (
            ("access_absence", ("starts_at", "ends_at")),
            ("access_delegation", ("starts_at", "ends_at")),
            ("approvals_lookagain", ("at",)),
        ):
            moved = ", ".join(f"{c} = {c} - interval '1 hour'" for c in columns)
            owner.execute(f"UPDATE {table} SET {moved} WHERE tenant_id = %s", [world.tenant.pk])


@pytest.mark.parametrize("gone", ["role", "account", "group", "away", "delegation", "policy"])
def test_a_proposal_that_nobody_can_complete_any_more_has_a_case_until_somebody_can(
    world: World, gone: str
) -> None:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    if gone == "delegation":
        lent = lend(world, world.manager, world.second)
        away(world, world.manager)
    proposal = world.proposed()
    walk(world)
    assert (open_case(world, proposal), told(world, proposal)) == (None, [])
    now = timezone.now()
    there_and_back: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "role": (
            lambda: Membership.objects.filter(person=world.manager).update(ended_at=now),
            lambda: Membership.objects.create(tenant=world.tenant, person=world.manager, role=Role.MANAGER),
        ),
        "account": (
            lambda: Person.objects.filter(pk=world.manager.pk).update(is_active=False),
            lambda: Person.objects.filter(pk=world.manager.pk).update(is_active=True),
        ),
        "group": (
            lambda: GroupMember.objects.update(ended_at=now),
            lambda: GroupMember.objects.create(
                tenant=world.tenant, group=Group.objects.get(), person=world.second
            ),
        ),
        "away": (
            lambda: Absence.objects.create(
                tenant=world.tenant, person=world.manager, starts_at=now - HOUR, ends_at=now + HOUR,
                noted_at=now, noted_by="x",
            ),
            lambda: Absence.objects.update(ended_at=timezone.now()),
        ),
        "delegation": (
            lambda: Delegation.objects.filter(pk=lent.pk).update(revoked_at=now, revoked_by="x"),
            lambda: Delegation.objects.create(
                tenant=world.tenant, giver=world.manager, taker=world.second, reason="again",
                starts_at=now - HOUR, ends_at=now + HOUR, given_at=now, given_by="x",
            ),
        ),
    }  # fmt: skip
    if gone == "policy":
        world.policy(levels=[{"group": "controllers"}], limits=[{"amount": "10.00", "currency": "EUR"}])
    else:
        change(world, there_and_back[gone][0])
    walk(world)
    case = open_case(world, proposal)
    assert case is not None
    assert case.owner_role == "admin"
    assert told(world, proposal) == ["approver.missing"]
    assert world.state(proposal) == JobState.AWAITING_APPROVAL
    change(world, lambda: LookAgain.objects.create(tenant=world.tenant, at=timezone.now()))
    walk(world)
    assert told(world, proposal) == ["approver.missing"], "a change is journalled once"
    if gone == "policy":
        world.policy(levels=[{"group": "controllers"}])
    else:
        change(world, there_and_back[gone][1])
    walk(world)
    assert open_case(world, proposal) is None
    assert told(world, proposal) == ["approver.missing", "approver.found"]
    assert world.proposal(proposal).blocked_at is None
    assert due(world) == []


def test_what_begins_and_ends_by_itself_is_looked_at_when_it_does(world: World) -> None:
    proposal = world.proposed()
    away(world, world.manager, world.second, begins=HOUR / 2, ends=HOUR * 3 / 2)
    walk(world)
    assert open_case(world, proposal) is None
    hurry(world)
    walk(world)
    assert open_case(world, proposal) is not None
    hurry(world)
    walk(world)
    assert open_case(world, proposal) is None


def test_a_signature_that_leaves_the_last_level_without_anybody_is_a_case_at_once(world: World) -> None:
    group(world, "controllers", world.second)
    world.policy(levels=[{"name": "line"}, {"name": "controlling", "group": "controllers"}])
    proposal = world.proposed()
    world.decide(proposal, world.second)
    case = open_case(world, proposal)
    assert case is not None
    assert "It needs one more signature of controlling" in case.detail
    group(world, "controllers", world.manager)
    walk(world)
    assert open_case(world, proposal) is None
    assert world.decide(proposal, world.manager).job_state == JobState.READY_TO_COMMIT


def test_who_is_away_may_still_sign_and_that_closes_the_case(world: World) -> None:
    away(world, world.manager, world.second)
    proposal = world.proposed()
    case = open_case(world, proposal)
    assert case is not None
    assert "more than 2 managers can give: 2 away" in case.detail
    assert world.decide(proposal, world.manager).job_state == JobState.READY_TO_COMMIT
    assert open_case(world, proposal) is None
    assert world.proposal(proposal).blocked_at is None


def test_a_proposal_that_goes_back_while_nobody_is_there_is_a_case_again(world: World) -> None:
    away(world, world.manager, world.second)
    proposal = world.proposed()
    world.decide(proposal, world.manager, "request changes")
    assert open_case(world, proposal) is None, "it is not asked any more"


def test_sums_that_are_used_up_are_a_case_until_there_is_room(world: World) -> None:
    world.policy(sums=[{"amount": "5000.00", "currency": "EUR"}])
    first, second = world.proposed(), world.proposed()
    world.decide(first, world.manager)
    walk(world)
    case = open_case(world, second)
    assert case is not None
    assert "used up for now" in case.detail
    with reading(world.tenant.pk):
        assert LookAgain.objects.filter(policy="test-policy", at__gt=timezone.now()).count() == 1
    world.policy(sums=[{"amount": "50000.00", "currency": "EUR"}])
    walk(world)
    assert open_case(world, second) is not None, "the frozen sums hold, too"
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute("UPDATE approvals_reservation SET day = day - 1 WHERE proposal_id = %s", [first.pk])
        owner.execute("UPDATE approvals_lookagain SET at = now() WHERE tenant_id = %s", [world.tenant.pk])
    walk(world)
    assert open_case(world, second) is None


def test_raw_sql_leaves_a_row_too_and_an_ordinary_sign_in_does_not(world: World) -> None:
    walk(world)
    person = make_person(world.tenant, Role.MANAGER)
    walk(world)
    Person.objects.filter(pk=person.pk).update(last_login=timezone.now())
    assert due(world) == []
    with connection.cursor() as cursor:
        cursor.execute("UPDATE access_person SET is_active = false WHERE id = %s", [person.pk])
    assert len(due(world)) == 1


def test_many_changes_are_one_walk_and_a_policys_own_looks_at_its_proposals_alone(world: World) -> None:
    walk(world)
    for _ in range(5):
        make_person(world.tenant, Role.MANAGER)
    assert len(due(world)) == 1
    walk(world)
    with reading(world.tenant.pk):
        assert not LookAgain.objects.exists()


@contextmanager
def meanwhile(call: Callable[[Event, Event], None]) -> Iterator[tuple[Event, Event]]:
    """A call in a thread of its own: it says when it stands, and goes on when it is told to."""
    stands, go_on = Event(), Event()
    thread = Thread(target=lambda: (call(stands, go_on), connections.close_all()))
    thread.start()
    try:
        assert stands.wait(20)
        yield stands, go_on
    finally:
        go_on.set()
        thread.join(20)


def test_a_proposal_asked_while_the_last_manager_leaves_is_not_forgotten(world: World) -> None:
    """T1 freezes and reads that there is a manager, then stands. T2 ends the role, commits, and a walk begins: it must
    not end before T1 is there to be seen."""
    world.end_role(world.second)
    walk(world)
    job = world.job()
    saved: list[Proposal] = []

    def freeze(stands: Event, go_on: Event) -> None:
        original = world.freeze
        with acting(world.tenant.pk):
            lock_job(job.pk)  # as a freeze has it, before it reads who is there
            assert facts_can_be_read(world)
            stands.set()
            go_on.wait(20)
        original(job)
        saved.append(world.proposal(job))

    with meanwhile(freeze) as (_, go_on):
        world.end_role(world.manager)
        ((tenant_id, look_id),) = due(world)
        assert looking.turn(tenant_id, look_id, "w1") is False
        assert due(world) == [(tenant_id, look_id)], "it waits for the transaction from before"
        go_on.set()
    walk(world)
    assert open_case(world, saved[0]) is not None


def facts_can_be_read(world: World) -> bool:
    from access.directory import directory

    return bool(directory().with_role(Role.MANAGER))


def test_a_proposal_that_is_locked_is_looked_at_once_more(world: World) -> None:
    proposal = world.proposed()
    walk(world)

    def hold(stands: Event, go_on: Event) -> None:
        with acting(world.tenant.pk):
            lock_job_and_proposal(proposal.pk)
            stands.set()
            go_on.wait(20)

    away(world, world.manager, world.second)
    with reading(world.tenant.pk):
        look = LookAgain.objects.filter(at__lte=timezone.now()).order_by("pk")[0]
        # Begun before the lock was taken: it does not wait for whoever has it.
    change(world, lambda: LookAgain.objects.filter(pk=look.pk).update(horizon=1))
    with meanwhile(hold) as (_, go_on):
        while looking.turn(world.tenant.pk, look.pk, "w1"):
            pass
        assert open_case(world, proposal) is None
        go_on.set()
    walk(world)
    assert open_case(world, proposal) is not None


def test_two_workers_walk_and_each_change_is_journalled_once(world: World) -> None:
    proposals = [world.proposed() for _ in range(6)]
    away(world, world.manager, world.second)

    def work(name: str) -> None:
        for _ in range(50):
            for tenant_id, look_id in due(world):
                while looking.turn(tenant_id, look_id, name):
                    pass

    at_once(lambda: work("w1"), lambda: work("w2"))
    walk(world)
    assert [told(world, p) for p in proposals] == [["approver.missing"]] * 6


@pytest.mark.parametrize("line", ["_take", "_next", "_look", "_note", "_keep", "_finish"])
def test_a_walk_that_is_killed_at_any_line_goes_on(world: World, line: str, monkeypatch: Any) -> None:
    """Before or after each of its transactions the process ends; ten seconds later another has the walk."""
    proposals = [world.proposed() for _ in range(4)]
    away(world, world.manager, world.second)
    real = getattr(looking, line)
    for after in (False, True):
        with monkeypatch.context() as patch:

            def die(*args: Any, after: bool = after, **kwargs: Any) -> Any:
                if after:
                    real(*args, **kwargs)
                raise KeyboardInterrupt

            patch.setattr(looking, line, die)
            with pytest.raises(KeyboardInterrupt):
                walk(world)
        with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
            owner.execute("UPDATE approvals_lookagain SET worked_until = NULL")
    walk(world)
    assert [told(world, p) for p in proposals] == [["approver.missing"]] * 4


def test_a_turn_is_bounded_and_the_next_one_goes_on_from_there(world: World, monkeypatch: Any) -> None:
    proposals = [world.proposed() for _ in range(5)]
    walk(world)
    away(world, world.manager, world.second)
    monkeypatch.setattr(looking, "TURN_SECONDS", 0)
    ((tenant_id, look_id),) = due(world)
    change(world, lambda: LookAgain.objects.filter(pk=look_id).update(horizon=1))
    noted = []
    for _ in range(5):
        assert looking.turn(tenant_id, look_id, "w1") is True
        noted.append(sum(told(world, p) != [] for p in proposals))
    assert noted == [1, 2, 3, 4, 5]
    assert looking.turn(tenant_id, look_id, "w1") is False
    with reading(world.tenant.pk):
        assert not LookAgain.objects.filter(pk=look_id).exists()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["away", "back", "leave", "join", "ungroup", "group", "lend", "revoke", "tighten", "ease",
                         "sign", "unsign", "disable", "enable", "later"]),
        st.integers(0, 2),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@pytest.mark.long
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_whatever_happens_to_people_an_open_proposal_can_be_completed_or_has_a_case(
    transactional_db: None, steps: list[tuple[str, int]]
) -> None:
    world = World.make()
    people = [world.manager, world.second, make_person(world.tenant, Role.MANAGER)]
    group(world, "controllers", people[0], people[1])
    world.policy(levels=[{"name": "line"}, {"group": "controllers"}])
    proposal = world.proposed()
    for what, who in steps:
        _happens(world, proposal, what, people[who], people[(who + 1) % 3])
        walk(world)
        now = world.proposal(proposal)
        if now.closed_at is not None or now.approved_at is not None:
            assert open_case(world, proposal) is None
            continue
        with reading(world.tenant.pk):
            fresh = Proposal.objects.select_related("policy", "job").get(pk=proposal.pk)
            completable = not facts_of(fresh).blocked
        assert completable == (open_case(world, proposal) is None) == (now.blocked_at is None)


def _happens(world: World, proposal: Proposal, what: str, person: Person, other: Person) -> None:
    from access.refusals import Refused
    from approvals.actions.withdraw import withdraw_approval

    now, tenant = timezone.now(), world.tenant
    mine: Any = {"tenant": tenant, "person": person}
    deeds: dict[str, Callable[[], Any]] = {
        "back": lambda: Absence.objects.filter(person=person, ended_at=None).update(ended_at=now),
        "leave": lambda: Membership.objects.filter(person=person, ended_at=None).update(ended_at=now),
        "join": lambda: (
            Membership.objects.filter(person=person, ended_at=None).exists()
            or Membership.objects.create(role=Role.MANAGER, **mine)
        ),
        "ungroup": lambda: GroupMember.objects.filter(person=person, ended_at=None).update(ended_at=now),
        "group": lambda: (
            GroupMember.objects.filter(person=person, ended_at=None).exists()
            or GroupMember.objects.create(group=Group.objects.get(), **mine)
        ),
        "revoke": lambda: Delegation.objects.filter(giver=person, revoked_at=None).update(
            revoked_at=now, revoked_by="x"
        ),
        "disable": lambda: Person.objects.filter(pk=person.pk).update(is_active=False),
        "enable": lambda: Person.objects.filter(pk=person.pk).update(is_active=True),
    }
    levels = [{"name": "line"}, {"group": "controllers"}]
    if what in deeds:
        change(world, deeds[what])
    elif what == "away":
        away(world, person)
    elif what == "later":
        away(world, person, begins=HOUR / 2, ends=HOUR * 3 / 2)
        hurry(world)
    elif what == "lend":
        lend(world, person, other)
    elif what == "ease":
        world.policy(levels=levels)
    else:
        try:
            if what == "sign":
                world.decide(proposal, person)
            elif what == "tighten":
                limits = [{"person": other.username, "amount": "9000.00", "currency": "EUR"}]
                world.policy(levels=levels, limits=limits)
            else:
                withdraw_approval(
                    tenant_id=tenant.pk, proposal_id=proposal.pk, person_id=person.pk, now=timezone.now()
                )
        except Refused:
            pass


def test_an_open_proposal_of_each_of_many_tenants_is_found(world: World) -> None:
    """The engine's role crosses tenants; a walk is one tenant's."""
    other = World.make()
    mine, theirs = world.proposed(), other.proposed(draft())
    away(world, world.manager, world.second)
    walk(world)
    walk(other)
    assert (open_case(world, mine) is not None, open_case(other, theirs) is None) == (True, True)
