"""A policy ends, a group ends or gets another name: with a reason, and not while something needs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import DatabaseError, connection
from django.urls import reverse
from django.utils import timezone

from access.actions.groups import (
    GroupNeeded,
    GroupReasonMissing,
    NoSuchGroup,
    add_to_group,
    end_group,
    make_group,
    rename_group,
)
from access.directory import directory
from access.models import Group, GroupMember, Person, TenantEntry
from access.refusals import NotPermitted
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from approvals.models import Policy, Proposal
from approvals.policies import (
    BadPolicy,
    PolicyEnded,
    PolicyNeeded,
    end_policy,
    read_rules,
    write_policy,
)
from approvals.reasons import ReasonMissing
from tests.approvals.pages import HOSTILE, as_person, text
from tests.approvals.test_arrangement_pages import run
from tests.approvals.test_authority import group
from tests.approvals.test_looking import open_case, walk
from tests.approvals.world import World, make_person
from tests.support import at_once, install

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def admin(world: World) -> Person:
    return make_person(world.tenant, Role.ADMIN)


def end(world: World, admin: Person, name: str = "test-policy", **more: Any) -> Policy:
    asked: dict[str, Any] = {"reason": "replaced", "now": timezone.now(), **more}
    return end_policy(tenant_id=world.tenant.pk, name=name, person_id=admin.pk, **asked)


@contextmanager
def nothing_deployed(settings: Any) -> Iterator[None]:
    """The workflow of these tests is deployed no more, so that nothing names its policy; afterwards it is again."""
    install(settings)
    yield
    install(settings, "tests.workflows_for_tests")


def write(world: World, name: str, **rules: Any) -> Policy:
    return write_policy(
        tenant_id=world.tenant.pk, name=name, rules=read_rules(rules), created_by=WORKER, now=timezone.now()
    )


def journal(world: World) -> list[tuple[str, str]]:
    with reading(world.tenant.pk):
        rows = TenantEntry.objects.order_by("sequence").values_list("event", "actor_name")
        return [row for row in rows if row[0].split(".")[0] in ("policy", "group")]


def named(world: World, name: str) -> Group:
    with reading(world.tenant.pk):
        return Group.objects.get(name=name)


def test_a_policy_that_a_deployed_workflow_names_is_not_ended(world: World, admin: Person) -> None:
    before = journal(world)
    with pytest.raises(PolicyNeeded, match='"test-policy" is the policy of '):
        end(world, admin)
    with pytest.raises(PolicyEnded, match='no policy "none"'):
        end(world, admin, "none")
    with pytest.raises(ReasonMissing):
        end(world, admin, reason=" ")
    with pytest.raises(NotPermitted):
        end(world, world.manager)
    assert journal(world) == before


def test_what_is_open_under_an_ended_policy_is_decided_and_looked_at_and_nothing_more_is_asked(
    world: World, admin: Person, settings: Any
) -> None:
    """Two are open; the policy ends; one is signed. Then nobody is left, and the other has its case."""
    signed, left = world.proposed(), world.proposed()
    with nothing_deployed(settings):
        ended = end(world, admin)
    walk(world)
    assert (ended.revision, ended.end_reason) == (2, "replaced")
    assert open_case(world, left) is None
    assert world.decide(signed, world.manager).job_state == "READY_TO_COMMIT"
    job = world.job()
    world.freeze(job)
    assert world.state(job) == "VALIDATED"
    assert 'no approval policy "test-policy"' in world.evidence(job, "proposal.refused")["why"]
    for manager in (world.manager, world.second):
        world.end_role(manager)
    walk(world)
    assert open_case(world, left) is not None
    with pytest.raises(PolicyEnded, match=f'"test-policy" was ended by {admin.username}: replaced'):
        end(world, admin)
    assert journal(world)[-1] == ("policy.ended", admin.username)
    # Raw SQL cannot ask under it either, and another revision puts it in force again.
    fields = {f.attname: getattr(left, f.attname) for f in Proposal._meta.concrete_fields}
    fields |= {"id": None, "job_id": job.pk, "policy_id": ended.pk}
    with pytest.raises(DatabaseError, match="policy that was ended"), acting(world.tenant.pk):
        Proposal.objects.create(**fields)
    assert write(world, "test-policy").revision == 3
    again = world.job()
    world.freeze(again)
    assert world.state(again) == "AWAITING_APPROVAL"


def test_of_two_who_end_and_write_at_once_one_is_told(world: World, admin: Person, settings: Any) -> None:
    with nothing_deployed(settings):
        both = at_once(
            lambda: end(world, admin, expected=1),
            lambda: write_policy(
                tenant_id=world.tenant.pk, name="test-policy", rules=read_rules({"quorum": 2}), created_by=WORKER,
                now=timezone.now(), expected=1,
            ),
        )  # fmt: skip
    assert sorted(type(one).__name__ for one in both) == ["Policy", "PolicyWrittenMeanwhile"]
    with reading(world.tenant.pk):
        assert Policy.objects.filter(name="test-policy").count() == 2


def test_a_group_that_a_policy_or_an_open_proposal_names_keeps_its_name_and_stays(
    world: World, admin: Person
) -> None:
    who = {"tenant_id": world.tenant.pk, "person_id": admin.pk}
    group(world, "controllers", world.manager)
    made = named(world, "controllers").pk
    write(world, "payments", escalation=[{"after_minutes": 5, "group": "controllers"}])
    world.policy(levels=[{"group": "controllers"}])
    proposal = world.proposed()
    for needing in ("the policy payments, the policy test-policy", "revision 2 of test-policy"):
        with pytest.raises(GroupNeeded, match=needing):
            rename_group(group_id=made, name="auditors", reason="clearer", **who)
        with pytest.raises(GroupNeeded, match=needing):
            end_group(group_id=made, reason="nobody asks for it", now=timezone.now(), **who)
        write(world, "payments")
        world.policy()
    world.decide(proposal, world.manager, "reject")
    rename_group(group_id=made, name="auditors", reason="clearer", **who)
    with reading(world.tenant.pk):
        assert directory().members[world.manager.pk].groups == {"auditors"}
    with pytest.raises(GroupReasonMissing):
        end_group(group_id=made, reason=" ", now=timezone.now(), **who)
    with pytest.raises(NotPermitted):
        end_group(
            tenant_id=world.tenant.pk,
            group_id=made,
            reason="r",
            now=timezone.now(),
            person_id=world.manager.pk,
        )
    end_group(group_id=made, reason="nobody asks for it", now=timezone.now(), **who)
    with reading(world.tenant.pk):
        assert directory().members[world.manager.pk].groups == set()
    assert [event for event, _ in journal(world) if event.startswith("group.")] == [
        "group.renamed",
        "group.ended",
    ]
    with pytest.raises(NoSuchGroup):
        add_to_group(group_id=made, member_id=world.second.pk, **who)
    with pytest.raises(BadPolicy, match='no group "auditors"'):
        write(world, "payments", levels=[{"group": "auditors"}])
    for statement in (
        "UPDATE access_group SET name = 'again'",
        f"INSERT INTO access_groupmember (tenant_id, group_id, person_id, began_at)"
        f" VALUES ({world.tenant.pk}, {made}, {world.second.pk}, now())",
    ):
        with pytest.raises(DatabaseError), acting(world.tenant.pk), connection.cursor() as cursor:
            cursor.execute(statement)
    # Its name is free for another group.
    assert make_group(name="auditors", **who) != made


def test_of_a_policy_that_asks_for_a_group_and_its_end_at_once_one_is_refused(
    world: World, admin: Person
) -> None:
    group(world, "controllers", world.manager)
    made = named(world, "controllers").pk
    both = at_once(
        lambda: write(world, "payments", levels=[{"group": "controllers"}]),
        lambda: end_group(
            tenant_id=world.tenant.pk, group_id=made, reason="r", person_id=admin.pk, now=timezone.now()
        ),
    )
    with reading(world.tenant.pk):
        live = Group.objects.filter(pk=made, ended_at__isnull=True).exists()
        written = Policy.objects.filter(name="payments").exists()
    assert live == written, both


def test_the_pages_end_a_policy_and_a_group_and_say_what_stands_in_the_way(
    world: World, admin: Person
) -> None:
    client, slug = as_person(admin), world.tenant.slug
    group(world, "controllers", world.manager)
    spare = write(world, "spare", levels=[{"group": "controllers"}])
    made = named(world, "controllers").pk
    ending, changing = (
        reverse("policy-end", args=[slug, spare.pk]),
        reverse("group-change", args=[slug, made]),
    )
    assert "It is named by" not in text(client.get(changing))
    assert "named by the policy spare" in text(client.get(changing))
    assert client.post(changing, {"do": "end", "reason": "r"}).status_code == 409
    with reading(world.tenant.pk):
        needed = Policy.objects.get(name="test-policy").pk
    assert "It cannot be ended" in text(client.get(reverse("policy-end", args=[slug, needed])))
    for manager in (world.manager, world.operator):
        assert as_person(manager).post(ending, {"reason": "r"}).status_code == 403
    assert client.post(ending, {"reason": ""}).status_code == 422
    assert client.post(ending, {"reason": HOSTILE}).status_code == 302
    assert client.post(ending, {"reason": "again"}).status_code == 409
    listed = client.get(reverse("policies", args=[slug]))
    assert "Ended:" in text(listed)
    assert "<script>" not in listed.content.decode()
    assert client.post(changing, {"do": "rename", "name": "auditors", "reason": "clearer"}).status_code == 302
    assert client.post(changing, {"do": "end", "reason": "done"}).status_code == 302
    assert client.get(changing).status_code == 404
    with reading(world.tenant.pk):
        assert not GroupMember.objects.filter(group_id=made, ended_at__isnull=True).exists()


def test_both_are_ended_from_a_terminal(world: World, admin: Person) -> None:
    slug, who = world.tenant.slug, ("--as", admin.username)
    group(world, "controllers", world.manager)
    write(world, "spare", levels=[{"group": "controllers"}])
    with pytest.raises(CommandError, match="named by the policy spare"):
        run("group", "end", slug, "controllers", "--reason", "r", *who)
    assert run("policy", "end", slug, "spare", "--reason", "r", *who)[1] == [
        "spare is ended, by its revision 2."
    ]
    assert "spare, revision 2: ended by" in "\n".join(run("policy", "list", slug)[1])
    assert run("group", "rename", slug, "controllers", "auditors", "--reason", "r", *who)[0] == 0
    assert run("group", "end", slug, "auditors", "--reason", "r", *who)[1] == ["auditors is ended."]
    assert run("group", "list", slug)[1] == [f"{slug} has no group."]
