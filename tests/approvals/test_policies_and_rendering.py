"""Policies are revisions that nobody edits; requests that cannot be frozen are refused before they are."""

import dataclasses
import json
from decimal import Decimal

import pytest
from django.utils import timezone

from access.models import TenantEntry
from access.refusals import NotPermitted
from access.roles import Actor, ActorKind, Role
from access.tenancy import reading
from approvals import rendering
from approvals.facts import in_force
from approvals.models import Policy
from approvals.policies import BadPolicy, PolicyWrittenMeanwhile, write_policy
from approvals.rendering import CannotRender, FrozenRequest
from approvals.ruleset import RuleSet
from tests.approvals.world import World, operation, render
from tests.support import at_once, make_person
from workflows.authoring import OperationDraft

pytestmark = pytest.mark.django_db(transaction=True)


def test_each_writing_is_a_revision_and_the_highest_is_in_force(world: World) -> None:
    written = world.policy(quorum=2)
    with reading(world.tenant.pk):
        assert in_force("test-policy") == written
        assert [p.revision for p in Policy.objects.order_by("revision")] == [1, 2]
        entry = TenantEntry.objects.filter(event="policy.written").latest("sequence")
    evidence = json.loads(entry.evidence)
    assert (evidence["policy"], evidence["revision"], evidence["rules"]["levels"][0]["quorum"]) == (
        "test-policy",
        2,
        2,
    )


def test_only_an_admin_writes_a_policy_by_hand(world: World) -> None:
    def write(person: object) -> Policy:
        actor = Actor(ActorKind.ADMIN, "whoever", person.pk)  # type: ignore[attr-defined]
        return write_policy(
            tenant_id=world.tenant.pk, name="p", rules=RuleSet(), created_by=actor, now=timezone.now()
        )

    with pytest.raises(NotPermitted):
        write(world.manager)
    admin = make_person(world.tenant, Role.ADMIN)
    assert write(admin).created_by == admin.username


def test_two_revisions_at_once_get_two_numbers_or_one_is_told(world: World) -> None:
    results = at_once(lambda: world.policy(quorum=2), lambda: world.policy(quorum=3))
    kept = [r for r in results if isinstance(r, Policy)]
    assert all(isinstance(r, Policy | PolicyWrittenMeanwhile) for r in results)
    assert sorted(p.revision for p in kept) == list(range(2, 2 + len(kept)))


@pytest.mark.parametrize(
    "wrong",
    [
        {"quorum": 0},
        {"expires_after_minutes": 0},
        {"limit_amount": Decimal("1")},
        {"limit_currency": "EUR"},
        {"limit_amount": Decimal("1.001"), "limit_currency": "EUR"},
    ],
)
def test_rules_that_contradict_themselves_are_refused(world: World, wrong: dict[str, object]) -> None:
    with pytest.raises(BadPolicy):
        world.policy(**wrong)
    with reading(world.tenant.pk):
        assert Policy.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"headers": {"Authorization": "Bearer s3cret"}}, "Authorization is never frozen"),
        ({"headers": {"A": "1", "a": "2"}}, "stands there twice"),
        ({"headers": {"A": "1\r\nB: 2"}}, "cannot be sent as it is"),
        ({"target": "/vendors/1"}, "not absolute"),
        ({"target": "https://user:pw@erp.test/"}, "user name"),
        ({"target": "http://[erp.test/"}, "not an address"),
        ({"method": "post"}, "not a word in capitals"),
        ({"operation_key": ""}, "no operation key"),
        ({"record": "x" * 301}, "record is longer than 300"),
    ],
)
def test_a_request_that_cannot_be_frozen_is_refused(change: dict[str, object], says: str) -> None:
    def wrong(one: OperationDraft, key: str | None, now: object) -> FrozenRequest:
        return dataclasses.replace(render(one, key, now), **change)  # type: ignore[arg-type]

    rendering.renders_operations(wrong)
    with pytest.raises(CannotRender, match=says):
        rendering.render(OperationDraft.model_validate(operation()), None, timezone.now())


def test_a_key_that_is_given_is_the_one_that_is_used() -> None:
    one = OperationDraft.model_validate(operation())
    assert rendering.render(one, "kept-key", timezone.now()).operation_key == "kept-key"


def test_operation_keys_fit_the_contract_and_are_never_short_of_randomness() -> None:
    key = rendering.new_operation_key(max_length=20, alphabet="abcdef0123456789ABCDEF")
    assert len(key) == 20
    assert set(key) <= set("abcdef0123456789ABCDEF")
    for length, alphabet in ((10, "0123456789"), (100, "x"), (40, "01")):
        with pytest.raises(CannotRender, match="too short to be unique"):
            rendering.new_operation_key(max_length=length, alphabet=alphabet)
