"""Each rule of approvals, and a story that it refuses: with exactly that rule switched off the same story passes.

So every story is known to bite. Where two walls stand for one rule, both are named; the database's walls are taken down
on their own in the last part, inside a transaction that is rolled back.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from access import directory
from access.directory import Lent
from access.models import Group, Person
from access.refusals import Refused
from access.roles import Actor, ActorKind, Role
from access.tenancy import acting, reading
from approvals import facts, freezing
from approvals.actions import decide
from approvals.actions.block import block_recipient
from approvals.models import Proposal
from approvals.rules import Facts, Way
from tests.approvals.biting import Switch, no, switched_off
from tests.approvals.test_authority import group, lend
from tests.approvals.world import World, long_ago
from tests.support import make_person
from workflows import journal
from workflows.locks import lock_job

pytestmark = pytest.mark.django_db(transaction=True)
# -- freezing and deciding ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rule:
    """`story`: whether what it tells went through. `switches` and `walls`: the rule, in code and in the database."""

    story: Callable[[World], bool]
    switches: tuple[Switch, ...]
    walls: tuple[tuple[str, str], ...] = ()


def block(world: World, recipient: str = "fennmark  CASTINGS") -> None:
    admin = make_person(world.tenant, Role.ADMIN)
    block_recipient(
        tenant_id=world.tenant.pk, recipient=recipient, reason="fraud", person_id=admin.pk, now=timezone.now()
    )


def approves(world: World, proposal: Proposal, person: Person, **more: Any) -> bool:
    """Whether it is READY_TO_COMMIT after this person's yes."""
    try:
        return world.decide(proposal, person, **more).job_state == "READY_TO_COMMIT"
    except Refused:
        return False


def freeze_for_a_blocked_recipient(world: World) -> bool:
    block(world)
    job = world.job()
    world.freeze(job)
    return world.state(job) == "AWAITING_APPROVAL"


def freeze_over_the_sums_of_a_waiver(world: World) -> bool:
    world.policy(waives_approval=True, sums=[{"amount": "5000", "currency": "EUR"}])
    world.freeze(world.job())
    job = world.job()
    world.freeze(job)
    return world.state(job) == "READY_TO_COMMIT"


def decide_for_a_blocked_recipient(world: World) -> bool:
    proposal = world.proposed()
    block(world)
    return approves(world, proposal, world.manager)


def decide_with_a_hand_in_it(world: World) -> bool:
    proposal = world.proposed()
    both = make_person(world.tenant, Role.OPERATOR, Role.MANAGER)
    with acting(world.tenant.pk):
        actor = world_actor(both)
        journal.record(
            job=lock_job(proposal.job_id), event="item.corrected", actor=actor, evidence={"item": 0}
        )
    return approves(world, proposal, both)


def world_actor(person: Person) -> Any:
    from access import authority

    return authority.require(person.pk, Role.OPERATOR)


def decide_what_one_started(world: World) -> bool:
    both = make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)
    return approves(world, world.proposed(by=both), both)


def decide_above_the_limit(world: World) -> bool:
    world.policy(limits=[{"amount": "1000", "currency": "EUR"}])
    return approves(world, world.proposed(), world.manager)


def decide_for_another_level(world: World) -> bool:
    with acting(world.tenant.pk):
        Group.objects.create(tenant=world.tenant, name="controllers")
    group(world, "controllers", world.second)
    world.policy(levels=[{"group": "controllers"}])
    return approves(world, world.proposed(), world.manager)


def decide_above_the_sums(world: World) -> bool:
    world.policy(sums=[{"amount": "5000", "currency": "EUR"}])
    assert approves(world, world.proposed(), world.manager)
    return approves(world, world.proposed(), world.manager)


def decide_with_one_of_two(world: World) -> bool:
    world.policy(quorum=2)
    return approves(world, world.proposed(), world.manager)


def decide_twice_with_one_authority(world: World) -> bool:
    world.policy(quorum=2)
    lend(world, world.manager, world.second)
    world.end_role(world.second)
    taker = make_person(world.tenant, Role.MANAGER)
    lend(world, world.manager, taker)
    proposal = world.proposed()
    world.decide(proposal, world.manager)
    # With the own authority excluded by nothing, only what was lent is left to be used twice.
    with pytest.MonkeyPatch.context() as patch:
        ways = Facts._ways
        patch.setattr(Facts, "_ways", lambda self, p: (w for w in ways(self, p) if p != taker.pk or w.giver))
        try:
            world.decide(proposal, taker)
        except Refused:
            return False
        return True


def decide_too_late(world: World) -> bool:
    return approves(world, world.proposed(now=long_ago()), world.manager)


def decide_without_the_password_again(world: World) -> bool:
    world.policy(reauthenticate="above", reauthenticate_above={"amount": "1000", "currency": "EUR"})
    return approves(world, world.proposed(), world.manager)


def decide_with_a_role_that_has_ended(world: World) -> bool:
    proposal = world.proposed()
    world.end_role(world.manager)
    return approves(world, proposal, world.manager)


def decide_with_an_account_that_is_disabled(world: World) -> bool:
    proposal = world.proposed()
    Person.objects.filter(pk=world.manager.pk).update(is_active=False)
    return approves(world, proposal, world.manager)


def decide_with_what_is_lent(world: World, **changes: Any) -> bool:
    group(world, "controllers", world.manager)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.manager, world.second, **changes)
    return approves(world, world.proposed(), world.second)


def decide_with_what_was_lent_until_just_now(world: World) -> bool:
    return decide_with_what_is_lent(world, ends_at=timezone.now())


def decide_with_what_is_lent_from_tomorrow_on(world: World) -> bool:
    tomorrow = timezone.now() + timedelta(days=1)
    return decide_with_what_is_lent(world, starts_at=tomorrow, ends_at=tomorrow + timedelta(days=1))


def decide_with_what_was_revoked(world: World) -> bool:
    return decide_with_what_is_lent(world, revoked_at=timezone.now(), revoked_by="x")


def decide_with_what_is_lent_for_another_policy(world: World) -> bool:
    return decide_with_what_is_lent(world, policies="another-policy")


def decide_with_what_a_giver_of_no_authority_lends(world: World) -> bool:
    group(world, "controllers", world.operator)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, world.operator, world.second)
    return approves(world, world.proposed(), world.second)


def decide_with_what_who_started_it_lends(world: World) -> bool:
    both = make_person(world.tenant, Role.SUBMITTER, Role.MANAGER)
    group(world, "controllers", both)
    world.policy(levels=[{"group": "controllers"}])
    lend(world, both, world.second)
    return approves(world, world.proposed(by=both), world.second)


def decide_above_the_cap_that_was_lent(world: World) -> bool:
    return decide_with_what_is_lent(world, most_amount="4799.99", most_currency="EUR")


def decide_above_the_takers_own_limit(world: World) -> bool:
    group(world, "controllers", world.manager)
    limits = [
        {"person": world.manager.username, "amount": "9000", "currency": "EUR"},
        {"person": world.second.username, "amount": "1000", "currency": "EUR"},
    ]
    world.policy(levels=[{"group": "controllers"}], limits=limits)
    lend(world, world.manager, world.second)
    return approves(world, world.proposed(), world.second)


def decide_on_another_digest(world: World) -> bool:
    return approves(world, world.proposed(), world.manager, digest="0" * 64)


def decide_in_bulk(world: World) -> bool:
    return approves(world, world.proposed(), world.manager, door="bulk")


def unsaid(statement: str, condition: str) -> Switch:
    """A statement of the directory without one of its conditions."""
    text: str = getattr(directory, statement)
    assert text.count(condition) == 1
    return directory, statement, text.replace(condition, "")


def every_way(self: Facts, person_id: int) -> Iterator[Way]:
    """The ways of a person, whoever lent them."""
    members = self.directory.members
    yield Way(members[person_id])
    yield from (Way(members[person_id], members[o.giver_id], o) for o in self.directory.taken_by(person_id))


AT = "coalesce(%(at)s, clock_timestamp())"
ANYBODY: Switch = (decide, "_manager", lambda person: Actor(ActorKind.MANAGER, "x", person))
ALLOWED = ("approvals_decision", "allowed")
CHANGES = ("approvals_proposal", "changes")
RULES = {
    "recipient, freezing": Rule(freeze_for_a_blocked_recipient, ((freezing, "block_of", no),)),
    "sums, freezing": Rule(freeze_over_the_sums_of_a_waiver, ((freezing, "_waivable", no),)),
    "recipient": Rule(decide_for_a_blocked_recipient, ((facts, "blocks_of", lambda _: {}),)),
    "four eyes": Rule(decide_with_a_hand_in_it, ((Facts, "four_eyes", False),)),
    "own job": Rule(decide_what_one_started, ((Facts, "four_eyes", False),), (ALLOWED,)),
    "limit": Rule(decide_above_the_limit, ((Facts, "_over_limit", no),)),
    "level": Rule(decide_for_another_level, ((Facts, "belongs", lambda *_: True),)),
    "sums": Rule(decide_above_the_sums, ((Facts, "over_sums", no),)),
    "quorum": Rule(decide_with_one_of_two, ((Facts, "missing", 0),), (CHANGES,)),
    "one authority once": Rule(decide_twice_with_one_authority, ((Facts, "_used", no),), (ALLOWED, CHANGES)),
    "expiry": Rule(decide_too_late, ((decide, "has_expired", lambda *_: False),), (ALLOWED,)),
    "digest": Rule(
        decide_on_another_digest,
        ((decide, "is_stale", lambda *_: False), (Facts, "objection_to", no)),
        (ALLOWED,),
    ),
    "role": Rule(
        decide_with_a_role_that_has_ended,
        (ANYBODY, unsaid("_MEMBERS", " AND m.ended_at IS NULL")),
        (ALLOWED,),
    ),
    "account": Rule(
        decide_with_an_account_that_is_disabled, (ANYBODY, unsaid("_MEMBERS", " AND p.is_active")), (ALLOWED,)
    ),
    "end of what is lent": Rule(
        decide_with_what_was_lent_until_just_now, (unsaid("_LENT", f" AND ends_at > {AT}"),), (ALLOWED,)
    ),
    "beginning of what is lent": Rule(
        decide_with_what_is_lent_from_tomorrow_on, (unsaid("_LENT", f" AND starts_at <= {AT}"),), (ALLOWED,)
    ),
    "revoked": Rule(decide_with_what_was_revoked, (unsaid("_LENT", " AND revoked_at IS NULL"),), (ALLOWED,)),
    "policies of what is lent": Rule(
        decide_with_what_is_lent_for_another_policy, ((Lent, "covers", lambda *_: True),)
    ),
    "authority of who lends": Rule(
        decide_with_what_a_giver_of_no_authority_lends,
        ((Facts, "_ways", every_way), (Facts, "belongs", lambda *_: True)),
        (ALLOWED,),
    ),
    "hand of who lends": Rule(
        decide_with_what_who_started_it_lends, ((Facts, "four_eyes", False),), (ALLOWED,)
    ),
    "cap of what is lent": Rule(decide_above_the_cap_that_was_lent, ((Facts, "_over_limit", no),)),
    "limit of who takes": Rule(decide_above_the_takers_own_limit, ((Facts, "_over_limit", no),)),
    "bulk": Rule(decide_in_bulk, ((Facts, "bulk", True),)),
    "password again": Rule(decide_without_the_password_again, ((Facts, "needs_reentry", False),)),
}


@pytest.mark.parametrize("name", RULES)
def test_a_decision_that_one_rule_alone_stops_goes_through_without_it(world: World, name: str) -> None:
    rule = RULES[name]
    assert rule.story(world) is False
    with switched_off(rule.switches, rule.walls):
        assert rule.story(World.make()) is True


# -- the database's own walls -------------------------------------------------------------------------------------

INSERT = (
    "INSERT INTO approvals_decision (tenant_id, proposal_id, person_id, person_name, round, verdict, digest, reason,"
    " fields, authenticated_by, decided_at, level, door) SELECT p.tenant_id, p.id, {person}, 'x', 7, 'approve',"
    " {digest}, 'r', '', 'sql', now(), 0, 'sql' FROM approvals_proposal p WHERE p.id = {proposal}"
)
RESERVE = (
    "INSERT INTO approvals_reservation (tenant_id, proposal_id, policy_name, recipient, amount, currency, day,"
    " reserved_at, released_why) SELECT tenant_id, id, {name}, recipient, 1, 'USD', now()::date, now(), ''"
    " FROM approvals_proposal WHERE id = {proposal}"
)
WALLS: dict[str, tuple[str, str, str]] = {
    "another digest": ("approvals_decision", "allowed", INSERT.format(
        person="{manager}", digest="repeat('0', 64)", proposal="{open}")),
    "after the expiry": ("approvals_decision", "allowed", INSERT.format(
        person="{manager}", digest="p.digest", proposal="{expired}")),
    "of who started it": ("approvals_decision", "allowed", INSERT.format(
        person="p.initiator_id", digest="p.digest", proposal="{open}")),
    "of nobody's manager": ("approvals_decision", "allowed", INSERT.format(
        person="{operator}", digest="p.digest", proposal="{open}")),
    "after the approval": ("approvals_decision", "allowed", INSERT.format(
        person="{second}", digest="p.digest", proposal="{approved}")),
    "other words": ("approvals_proposal", "changes", "UPDATE approvals_proposal SET title = 'x' WHERE id = {open}"),
    "a later expiry": ("approvals_proposal", "changes",
        "UPDATE approvals_proposal SET expires_at = expires_at + interval '1 day' WHERE id = {open}"),
    "an approval by nobody": ("approvals_proposal", "changes",
        "UPDATE approvals_proposal SET approved_at = now() WHERE id = {open}"),
    "an approval taken away": ("approvals_proposal", "changes",
        "UPDATE approvals_proposal SET approved_at = NULL WHERE id = {approved}"),
    "a proposal taken away": (
        "approvals_proposal",
        "never_deleted",
        "ALTER TABLE approvals_proposedoperation DISABLE TRIGGER append_only;"
        " DELETE FROM approvals_proposedoperation WHERE proposal_id = {open};"
        " DELETE FROM approvals_proposal WHERE id = {open}",
    ),
    "other bytes": ("approvals_proposedoperation", "append_only",
        "UPDATE approvals_proposedoperation SET body = 'x' WHERE proposal_id = {open}"),
    "sent without an approval": ("approvals_proposal", "changes",
        "UPDATE approvals_proposal SET closed_at = now(), closing = 'sent' WHERE id = {open}"),
    "of a disabled account": ("approvals_decision", "allowed",
        "UPDATE access_person SET is_active = false WHERE id = {manager};" + INSERT.format(
            person="{manager}", digest="p.digest", proposal="{open}")),
    "a void of what is closed": ("approvals_decisionvoid", "allowed",
        "INSERT INTO approvals_decisionvoid (tenant_id, decision_id, why, voided_at, voided_by)"
        " SELECT tenant_id, id, 'x', now(), 'x' FROM approvals_decision WHERE proposal_id = {rejected}"),
    "room given away": ("approvals_reservation", "allowed",
        "UPDATE approvals_reservation SET released_at = now() WHERE proposal_id = {approved}"),
    "room for what is not approved": ("approvals_reservation", "allowed", RESERVE.format(
        name="'test-policy'", proposal="{open}")),
    "room under another policy": ("approvals_reservation", "allowed", RESERVE.format(
        name="'other'", proposal="{approved}")),
    "an end undone": ("access_membership", "ended",
        "UPDATE access_membership SET ended_at = NULL WHERE person_id = {gone}"),
    "another reason": ("approvals_decision", "append_only",
        "UPDATE approvals_decision SET reason = 'x' WHERE proposal_id = {approved}"),
}  # fmt: skip


def refused(owner: psycopg.Connection[Any], statement: str) -> bool:
    try:
        with owner.transaction():
            owner.execute(statement)
    except psycopg.Error:
        return True
    return False


def test_what_one_trigger_alone_refuses_is_written_without_it(world: World) -> None:
    world.policy(sums=[{"amount": "90000", "currency": "EUR"}])
    made = {"open": world.proposed(), "expired": world.proposed(now=long_ago()), "approved": world.proposed()}
    made["rejected"] = world.proposed()
    world.decide(made["approved"], world.manager)
    world.decide(made["rejected"], world.manager, "reject")
    gone = make_person(world.tenant, Role.MANAGER)
    world.end_role(gone)
    people = {
        "manager": world.manager.pk, "second": world.second.pk, "operator": world.operator.pk, "gone": gone.pk
    }  # fmt: skip
    named = {**people, **{k: p.pk for k, p in made.items()}}
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        for name, (table, trigger, template) in WALLS.items():
            statement = template.format(**named)
            assert refused(owner, statement), name
            with owner.transaction(force_rollback=True):
                owner.execute("SET CONSTRAINTS ALL DEFERRED")
                owner.execute(f"DROP TRIGGER {trigger} ON {table}")
                owner.execute(statement)
    with reading(world.tenant.pk):
        assert Proposal.objects.filter(pk__in=[p.pk for p in made.values()]).count() == len(made)
