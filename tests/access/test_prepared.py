"""What a session has prepared, when the session, the tables or the roles are not what they were."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection

from access.database_objects import APP, ENGINE
from access.models import Membership, Tenant
from access.outages import is_outage
from access.roles import Role
from access.statements import Select, execute, plan_once
from access.tenancy import reading
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
HOLDERS = Select(lambda role: Membership.objects.filter(role=role).order_by("pk"))


@pytest.fixture(autouse=True)
def session(transactional_db: None) -> Iterator[None]:
    """One of the test's own: what it does to it is no other test's."""
    connection.close()
    yield
    connection.close()


@pytest.fixture
def owner() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        yield owner


def cut() -> None:
    with socket.socket(fileno=os.dup(connection.connection.fileno())) as link:
        link.shutdown(socket.SHUT_RDWR)


def end() -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.connection.info.backend_pid])


@pytest.mark.parametrize("lose", [cut, end, lambda: connection.connection.close()])
@pytest.mark.parametrize("inside", [True, False])
def test_a_session_that_is_lost_is_an_outage_and_no_fault_of_the_statement(
    lose: Callable[[], None], inside: bool
) -> None:
    """In the middle of a transaction, and at its BEGIN. What is an outage is tried again: an answer is not lost by it."""
    tenant = make_tenant()
    with pytest.raises(DatabaseError) as lost:  # noqa: PT012 - where it is raised is what differs
        with reading(tenant.pk):
            HOLDERS.all("manager")
            if inside:
                lose()
                HOLDERS.all("manager")
        lose()
        with reading(tenant.pk):
            HOLDERS.all("manager")
    assert is_outage(lost.value)
    connection.close()
    with reading(tenant.pk):
        assert HOLDERS.all("manager") == []


@pytest.mark.parametrize(
    "change", ["ALTER TABLE changed ALTER a TYPE int USING 1", "DEALLOCATE ALL", "DISCARD PLANS"]
)
def test_what_is_prepared_is_made_anew_after_a_migration_under_a_living_session(
    owner: psycopg.Connection[Any], change: str
) -> None:
    """At most one question is told to come again, as after an outage; the session then knows better."""
    tenant = make_tenant()
    owner.execute("CREATE TABLE changed (id int, a text)")
    owner.execute(f"GRANT ALL ON changed TO {APP}")
    try:
        owner.execute("INSERT INTO changed VALUES (1, '1')")

        def ask() -> str:
            with reading(tenant.pk):
                return str(execute("SELECT a FROM changed WHERE id = %s", [1]).fetchone()[0])

        assert ask() == "1"
        (connection.connection if change.startswith("D") else owner).execute(change)
        answers = [told(ask), told(ask), told(ask)]
        assert answers in (["1", "1", "1"], ["outage", "1", "1"])
    finally:
        owner.execute("DROP TABLE changed")


def told(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except DatabaseError as error:
        return "outage" if is_outage(error) else repr(error)


@pytest.mark.parametrize("planned_once", [True, False])
def test_one_plan_shows_each_tenant_its_own_rows_and_each_role_what_is_its_own(planned_once: bool) -> None:
    """A plan that was made for one tenant, or as one role, is asked for another: row level security is in it."""
    tenants = [make_tenant(), make_tenant()]
    members = [make_person(tenant, Role.MANAGER) for tenant in tenants]
    connection.close()
    connection.ensure_connection()
    if planned_once:
        plan_once(connection)

    def seen(tenant: Tenant) -> list[int]:
        with reading(tenant.pk):
            return [m.person_id for m in HOLDERS.all("manager")]

    for _ in range(8):  # the server itself goes over to one plan after five
        assert [seen(tenant) for tenant in tenants] == [[m.pk] for m in members]
    with reading(tenants[0].pk):
        connection.connection.execute("SET LOCAL ROLE NONE")  # the owner, whom no policy holds
        assert [m.person_id for m in HOLDERS.all("manager")] == [m.pk for m in members]
    assert [seen(tenant) for tenant in tenants] == [[m.pk] for m in members]
    with reading(tenants[0].pk):
        connection.connection.execute("SELECT set_config('app.tenant', '', true)")
        assert HOLDERS.all("manager") == []
    with pytest.raises(DatabaseError, match="permission denied"), reading(tenants[0].pk):  # noqa: PT012
        connection.connection.execute(f"SET LOCAL ROLE {ENGINE}")
        HOLDERS.all("manager")
    assert [seen(tenant) for tenant in tenants] == [[m.pk] for m in members]


def test_a_plan_made_for_an_empty_table_is_made_anew_once_the_table_is_analysed(
    owner: psycopg.Connection[Any],
) -> None:
    """In the same session, in which everything is planned once: a plan does not outlive what it was made for."""
    tenant = make_tenant()
    owner.execute("CREATE TABLE changed (id int, a int) WITH (autovacuum_enabled = false)")
    owner.execute(f"GRANT ALL ON changed TO {APP}")
    try:
        owner.execute("CREATE INDEX ON changed (a)")
        owner.execute("INSERT INTO changed VALUES (1, 1)")
        owner.execute("VACUUM ANALYZE changed")
        connection.ensure_connection()
        plan_once(connection)
        assert scan_of_changed(tenant) == "Seq Scan"
        owner.execute("INSERT INTO changed SELECT n, n FROM generate_series(1, 9000) n")
        owner.execute("ANALYZE changed")
        assert scan_of_changed(tenant) in ("Index Scan", "Bitmap Heap Scan")
    finally:
        owner.execute("DROP TABLE changed")


def scan_of_changed(tenant: Tenant) -> str:
    """How the session's prepared statement looks for its row now."""
    with reading(tenant.pk):
        execute("SELECT id FROM changed WHERE a = %s", [5])
        ((name,),) = execute(
            "SELECT name FROM pg_prepared_statements WHERE statement LIKE %s", ["% changed %"]
        ).fetchall()
        ((plan,),) = execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name}(5::smallint)", []).fetchall()
    return str(plan[0]["Plan"]["Node Type"])
