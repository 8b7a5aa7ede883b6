"""What was delivered long ago goes with its tries, some at a time; what waits, was given up or is evidence stays."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from access.models import Tenant
from access.roles import Role
from access.tenancy import acting, reading
from outbox import pruning
from outbox.models import Endpoint, Message, Try
from reconciliation import old_messages
from reconciliation.models import Case
from tests.approvals.world import World
from tests.outbox.conftest import make_endpoint
from tests.outbox.telling import messages, tell
from tests.support import make_person, make_tenant
from workflows.engine.connections import connect


def settle(tenant: Tenant, key: str, what: str, days: int) -> Message:
    """One message as it stands so many days after it came to an end, with the try that ended it."""
    tell(tenant, keys=[key])
    with acting(tenant.pk), connection.cursor() as cursor:
        cursor.execute("UPDATE outbox_message SET claimed_by = 'd' WHERE key = %s", [key])
        cursor.execute(
            f"UPDATE outbox_message SET {what} = now() - %s * interval '1 day', claimed_by = '',"
            " next_attempt_at = NULL WHERE key = %s RETURNING id",
            [days, key],
        )
        (number,) = cursor.fetchone()
        now = timezone.now()
        Try.objects.create(
            tenant=tenant, message_id=number, claim_no=0, outcome="delivered", dispatcher="d",
            started_at=now, ended_at=now,
        )  # fmt: skip
    with reading(tenant.pk):
        return Message.objects.get(pk=number)


def sweep() -> list[bool]:
    """What an engine does at one look: whether each thing it found had more to do at once."""
    with connect("test") as engine:
        found = engine.execute(old_messages.ERRAND.find).fetchall()
    return [old_messages.turn(tenant_id, message_id, "w1") for tenant_id, message_id in found]


def kept(tenant: Tenant) -> tuple[list[str], list[int]]:
    with reading(tenant.pk):
        return [m.key for m in messages(tenant)], list(
            Try.objects.order_by("pk").values_list("message_id", flat=True)
        )


def test_what_was_delivered_a_month_ago_goes_in_batches_and_the_rest_stays(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "AT_ONCE", 2)
    other = make_tenant()
    for tenant, secret in ((world.tenant, "SAMPLE"), (other, "OTHER")):
        boss = make_person(tenant, Role.ADMIN)
        make_endpoint(tenant, boss, "http://127.0.0.1:9/", secret=f"env:COUNTERFOIL_WEBHOOK_{secret}")
    proposal = world.proposed()
    for key in ("old-1", "old-2", "old-3"):
        settle(world.tenant, key, "delivered_at", 31)
    young = settle(world.tenant, "young", "delivered_at", 29)
    dead = settle(world.tenant, "dead", "given_up_at", 400)
    evidence = settle(world.tenant, "evidence", "delivered_at", 31)
    with acting(world.tenant.pk):
        Case.objects.create(
            tenant=world.tenant, kind="undeliverable event", job_id=proposal.job_id, message=evidence,
            title="books cannot be told", opened_at=timezone.now(), due_at=timezone.now(),
        )  # fmt: skip
    tell(world.tenant, keys=["waiting"])
    settle(other, "theirs", "delivered_at", 31)
    assert sorted(sweep()) == [False, True]
    assert sweep() == [False]
    assert sweep() == []
    assert kept(world.tenant) == (["young", "dead", "evidence", "waiting"], [young.pk, dead.pk, evidence.pk])
    assert kept(other) == ([], [])


@pytest.mark.parametrize(
    ("what", "statement"),
    [
        ("delivered_at", "DELETE FROM outbox_message"),
        ("delivered_at", "DELETE FROM outbox_try"),
        ("given_up_at", "DELETE FROM outbox_try"),
        ("given_up_at", "UPDATE outbox_try SET said = 'nothing'"),
    ],
)
def test_nothing_goes_within_a_day_of_its_delivery_and_no_try_changes(
    tenant: Tenant, endpoint: Endpoint, what: str, statement: str
) -> None:
    settle(tenant, "k", what, 0 if what == "delivered_at" else 400)
    before = kept(tenant)
    with pytest.raises(DatabaseError), acting(tenant.pk), connection.cursor() as cursor:
        cursor.execute(statement)
    assert kept(tenant) == before
