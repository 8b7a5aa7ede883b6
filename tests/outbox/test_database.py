"""What raw SQL cannot do to the outbox either."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, IntegrityError, connection
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting
from outbox.models import Endpoint, Message
from tests.outbox.telling import messages, tell
from tests.support import make_person, make_tenant


def run(tenant: Tenant, statement: str) -> int:
    with acting(tenant.pk), connection.cursor() as cursor:
        cursor.execute(statement)
        return int(cursor.rowcount)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE outbox_message SET payload = '{}'",
        "UPDATE outbox_message SET key = 'another'",
        "UPDATE outbox_message SET claim_no = 7",
        "UPDATE outbox_message SET delivered_at = now(), next_attempt_at = NULL",
        "UPDATE outbox_message SET next_attempt_at = NULL",
        "UPDATE outbox_message SET reported_at = now()",
        "DELETE FROM outbox_message",
        "DELETE FROM outbox_endpoint",
        "UPDATE outbox_endpoint SET name = 'another'",
        "UPDATE outbox_endpoint SET disabled_at = now()",
    ],
)
def test_a_message_and_an_endpoint_stay_what_they_are(
    tenant: Tenant, endpoint: Endpoint, statement: str
) -> None:
    tell(tenant)
    (before,) = messages(tenant)
    with pytest.raises(DatabaseError):
        run(tenant, statement)
    assert [m.__dict__ | {"_state": None} for m in messages(tenant)] == [before.__dict__ | {"_state": None}]


def test_what_was_delivered_stays_delivered(tenant: Tenant, endpoint: Endpoint) -> None:
    tell(tenant)
    run(tenant, "UPDATE outbox_message SET claimed_by = 'me'")
    run(tenant, "UPDATE outbox_message SET claimed_by = '', delivered_at = now(), next_attempt_at = NULL")
    with pytest.raises(IntegrityError, match="was delivered"):
        run(tenant, "UPDATE outbox_message SET delivered_at = NULL, next_attempt_at = now()")


def test_a_message_goes_to_one_person_or_one_endpoint_of_its_own_tenant(
    tenant: Tenant, admin: Person, endpoint: Endpoint
) -> None:
    now, other = timezone.now(), make_tenant()
    person = make_person(other, Role.OPERATOR)
    rows = [
        {"kind": "webhook", "endpoint": endpoint, "person": admin},
        {"kind": "e-mail", "endpoint": endpoint},
        {"kind": "webhook"},
        {"kind": "webhook", "endpoint": endpoint, "tenant": other, "person": None},
        {"kind": "e-mail", "person": person, "attempts": 3},
    ]
    for row in rows:
        at = row.get("tenant", tenant)
        with pytest.raises(IntegrityError), acting(at.pk):
            Message.objects.create(**{
                "tenant": at, "event": "case.opened", "key": "k", "payload": "{}", "created_at": now,
                "next_attempt_at": now, "gives_up_at": now, **row,
            })  # fmt: skip
    assert messages(tenant) == messages(other) == []
