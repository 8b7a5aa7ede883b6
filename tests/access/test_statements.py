"""Statements made once find what the ORM finds, in the scope that it needs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from django.db import IntegrityError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.models import Membership, Tenant
from access.prepared import MOST_PREPARED
from access.roles import Role
from access.statements import Select, Update, Values, execute, insert
from access.tenancy import NoTenantScope, acting, reading
from approvals.models import Policy
from dispatch.models import Receiver, ReceiverContract
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

HOLDERS = Select(
    lambda role: Membership.objects.filter(role=role).select_related("person").order_by("person__username")
)
ROLES = Values(lambda roles: Membership.objects.filter(role__among=roles).order_by("pk").values_list("role"))
END = Update(lambda member: Membership.objects.filter(pk=member, ended_at__isnull=True))


@pytest.fixture
def tenant() -> Tenant:
    ours = make_tenant()
    make_person(ours, Role.MANAGER)
    make_person(ours, Role.MANAGER, Role.AUDITOR)
    make_person(make_tenant(), Role.MANAGER)
    return ours


def test_rows_come_with_what_belongs_to_them_and_of_one_tenant_only(tenant: Tenant) -> None:
    with reading(tenant.pk):
        by_orm = list(Membership.objects.filter(role="manager").select_related("person"))
        found = HOLDERS.all("manager")
        assert {m.pk for m in found} == {m.pk for m in by_orm}
        assert len(found) == 2
        assert {m.pk: vars(m) | {"_state": None} for m in found} == {
            m.pk: vars(m) | {"_state": None} for m in by_orm
        }
        assert HOLDERS.first("submitter") is None
        assert all(m.person.username for m in found)
        assert ROLES.all(["auditor", "admin"]) == [("auditor",)]
        assert ROLES.all([]) == []
        assert ROLES.exist(["manager"])


@pytest.mark.parametrize(
    "ask",
    [
        lambda: HOLDERS.all("manager"),
        lambda: ROLES.first(["manager"]),
        lambda: END(1, ended_at=None),
        lambda: insert(Membership(tenant_id=1, person_id=1, role="manager")),
    ],
)
def test_a_statement_outside_a_scope_is_refused(tenant: Tenant, ask: Callable[[], object]) -> None:
    with pytest.raises(NoTenantScope):
        ask()


def test_an_update_says_how_many_rows_it_changed(tenant: Tenant) -> None:
    now = timezone.now()
    with acting(tenant.pk):
        (member, _) = HOLDERS.all("manager")
        assert END(member.pk, ended_at=now) == 1
        assert END(member.pk, ended_at=now) == 0
    with reading(tenant.pk):
        assert Membership.objects.get(pk=member.pk).ended_at == now
        assert Membership.objects.filter(ended_at__isnull=True).count() == 2


def test_what_is_inserted_reads_back_as_it_was(tenant: Tenant) -> None:
    now = timezone.now()
    with acting(tenant.pk):
        receiver = insert(
            Receiver(tenant=tenant, name="erp", title="The ERP", base_url="http://127.0.0.1:1", paused_at=now)
        )
        terms = {"title": "x", "codes": [1, None, "é"]}
        contract = insert(_contract(receiver, terms, now))
    versions = Select(lambda receiver: ReceiverContract.objects.filter(receiver=receiver))
    with reading(tenant.pk):
        assert Receiver.objects.get(name="erp").paused_at == now
        assert [(c.pk, c.terms) for c in versions.all(receiver.pk)] == [(contract.pk, terms)]
    with acting(tenant.pk):
        receiver.title = "Another"
        receiver.save(update_fields=["title"])  # it knows that it is there already
    with reading(tenant.pk):
        assert Receiver.objects.get().title == "Another"


def _contract(receiver: Receiver, terms: dict[str, Any], now: datetime) -> ReceiverContract:
    return ReceiverContract(
        tenant_id=receiver.tenant_id, receiver=receiver, version=1, terms=terms, reviewed_at=now
    )


def test_a_session_prepares_a_statement_once_and_anew_after_a_rollback(tenant: Tenant) -> None:
    def prepared() -> int:
        text = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE %s"
        return int(execute(text, ["%approvals_policy%"]).fetchone()[0])

    named = Select(lambda name: Policy.objects.filter(name=name))
    connection.close()  # the session may be an earlier test's, who asked for policies too
    with reading(tenant.pk):
        assert [named.all(name) for name in ("a", "b", "c")] == [[], [], []]
        assert prepared() == 1
    with pytest.raises(ZeroDivisionError), acting(tenant.pk):
        raise ZeroDivisionError
    with reading(tenant.pk):
        assert named.all("d") == []
        assert prepared() == 1


def test_a_constraint_speaks_as_it_does_to_the_orm(tenant: Tenant) -> None:
    twice = Receiver(tenant=tenant, name="erp", title="", base_url="http://127.0.0.1:1")
    with acting(tenant.pk):
        insert(twice)
    twice.pk = None
    with pytest.raises(IntegrityError, match="one_receiver_a_name"), acting(tenant.pk):
        insert(twice)


def test_a_statement_takes_its_parameters_by_place_or_by_name(tenant: Tenant) -> None:
    with reading(tenant.pk):
        by_place = execute("SELECT %s::text || '%%' || %s::text", ["x", "y"])
        by_name = execute("SELECT %(b)s::text || '%%' || %(a)s::text || %(b)s::text", {"a": "x", "b": "y"})
        assert (by_place.fetchall(), by_name.fetchone(), by_name.fetchone()) == ([("x%y",)], ("y%xy",), None)


def test_a_session_keeps_so_many_statements_and_no_more(tenant: Tenant) -> None:
    with reading(tenant.pk):
        for number in range(MOST_PREPARED + 5):
            assert execute(f"SELECT %s::bigint AS n_{number}", [2**40 + number]).fetchone() == (
                2**40 + number,
            )
        ((kept,),) = execute("SELECT count(*) FROM pg_prepared_statements", []).fetchall()
        assert 0 < kept <= MOST_PREPARED
        assert execute("SELECT %s::bigint AS n_0", [2**40]).fetchone() == (2**40,)


def test_whoever_has_queries_logged_reads_it(tenant: Tenant) -> None:
    with CaptureQueriesContext(connection) as told, reading(tenant.pk):
        assert HOLDERS.first("submitter") is None
    assert sum("access_membership" in query["sql"] for query in told.captured_queries) == 1
