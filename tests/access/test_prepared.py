"""What a session has prepared, when the session, the tables or the roles are not what they were."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, DataError, IntegrityError, connection, transaction
from django.test.utils import CaptureQueriesContext

from access.database_objects import APP, ENGINE
from access.models import Membership, Tenant
from access.outages import is_outage
from access.prepared import ahead, execute_alone
from access.roles import Role
from access.statements import Select, execute, plan_once
from access.tenancy import reading
from tests.support import eventually, make_person, make_tenant

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
    """In the same session, in which a prepared statement is planned once: a plan does not outlive what it was made for."""
    tenant = make_tenant()
    owner.execute("CREATE TABLE changed (id int, a int) WITH (autovacuum_enabled = false)")
    owner.execute(f"GRANT ALL ON changed TO {APP}")
    try:
        owner.execute("CREATE INDEX ON changed (a)")
        owner.execute("INSERT INTO changed VALUES (1, 1)")
        owner.execute("VACUUM ANALYZE changed")
        connection.ensure_connection()
        connection.connection.execute("SET plan_cache_mode = force_generic_plan")
        assert scan_of_changed(tenant) == "Seq Scan"
        owner.execute("INSERT INTO changed SELECT n, n FROM generate_series(1, 9000) n")
        owner.execute("ANALYZE changed")
        assert scan_of_changed(tenant) in ("Index Scan", "Bitmap Heap Scan")
    finally:
        owner.execute("DROP TABLE changed")


def test_what_is_asked_ahead_is_answered_once_and_as_it_was_then() -> None:
    tenant = make_tenant()
    with reading(tenant.pk), ahead(HOLDERS.asked("manager"), HOLDERS.asked("auditor"), ("SELECT 2", [])):
        member = make_member_elsewhere(tenant, Role.MANAGER)
        assert HOLDERS.all("manager") == []
        assert [m.person_id for m in HOLDERS.all("manager")] == [member]
        assert execute("SELECT 2", []).fetchone() == (2,)
    with reading(tenant.pk):
        with ahead(HOLDERS.asked("auditor")):
            pass
        make_member_elsewhere(tenant, Role.AUDITOR)
        assert len(HOLDERS.all("auditor")) == 1, "an answer does not outlive its block"


def make_member_elsewhere(tenant: Tenant, role: Role) -> int:
    """By another session, which has committed."""

    def make() -> int:
        try:
            return int(make_person(tenant, role).pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        return other.submit(make).result()


def test_an_error_among_what_is_asked_ahead_is_that_statements_own() -> None:
    tenant = make_tenant()
    with pytest.raises(DataError, match="division by zero"), reading(tenant.pk):  # noqa: SIM117
        with ahead(HOLDERS.asked("manager"), ("SELECT 1 / 0", []), ("SELECT 3", [])):
            pytest.fail("what failed is not gone on with")
    with reading(tenant.pk):
        assert execute("SELECT 3", []).fetchone() == (3,)


def test_who_looks_at_queries_sees_what_was_asked_ahead() -> None:
    tenant = make_tenant()
    with CaptureQueriesContext(connection) as seen, reading(tenant.pk), ahead(HOLDERS.asked("manager")):
        assert HOLDERS.all("manager") == []
    assert sum("access_membership" in query["sql"] for query in seen) == 1


def test_what_runs_alone_is_done_whole_or_not_at_all(owner: psycopg.Connection[Any]) -> None:
    owner.execute("CREATE TABLE changed (id int PRIMARY KEY)")
    owner.execute(f"GRANT ALL ON changed TO {APP}")
    insert = "INSERT INTO changed VALUES (%s)"
    try:
        set_locally, found = execute_alone(
            ("SELECT set_config('app.tenant', '7', true)", []), ("SELECT current_setting('app.tenant')", [])
        )
        assert found.fetchone() == set_locally.fetchone() == ("7",)
        assert execute("SELECT current_setting('app.tenant', true)", []).fetchone() == ("",)
        assert [done.rowcount for done in execute_alone((insert, [1]), (insert, [2]))] == [1, 1]
        with pytest.raises(IntegrityError):
            execute_alone((insert, [3]), (insert, [1]))
        assert owner.execute("SELECT array_agg(id ORDER BY id) FROM changed").fetchone() == ([1, 2],)
        with pytest.raises(RuntimeError, match="one of its own"), transaction.atomic():
            execute_alone((insert, [4]))
        with CaptureQueriesContext(connection), pytest.raises(IntegrityError):
            execute_alone((insert, [5]), (insert, [1]))
        assert owner.execute("SELECT count(*) FROM changed").fetchone() == (2,)
    finally:
        owner.execute("DROP TABLE changed")


@pytest.mark.parametrize("lose", [cut, end])
def test_a_session_that_is_lost_in_an_exchange_of_several_is_an_outage(lose: Callable[[], None]) -> None:
    tenant = make_tenant()
    with pytest.raises(DatabaseError) as lost, reading(tenant.pk):  # noqa: PT012
        HOLDERS.all("manager")
        lose()
        with ahead(HOLDERS.asked("manager"), HOLDERS.asked("auditor")):
            pytest.fail("there is nobody to answer")
    assert is_outage(lost.value)
    connection.close()
    execute_alone(("SELECT 1", []))
    lose()
    with pytest.raises(DatabaseError) as lost:
        execute_alone(("SELECT 1", []), ("SELECT 2", []))
    assert is_outage(lost.value)
    connection.close()
    assert execute_alone(("SELECT 2", []))[0].fetchone() == (2,)


def test_an_exchange_that_is_interrupted_leaves_no_answer_to_the_next(owner: psycopg.Connection[Any]) -> None:
    """A signal comes while the server still computes. What it answers then is nobody's."""

    class Interrupted(BaseException):
        pass

    def interrupt(*_: object) -> None:
        raise Interrupted

    def asleep() -> bool:
        busy = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
        return owner.execute(busy).fetchone() == (1,)

    def signal_when_asleep() -> None:
        eventually(asleep, what="the exchange is under way")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

    execute_alone(("SELECT 1", []))
    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ThreadPoolExecutor(1) as other, pytest.raises(Interrupted):  # noqa: PT012
            other.submit(signal_when_asleep)
            execute_alone(("SELECT 'mine'", []), ("SELECT pg_sleep(60)", []))
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert connection.connection.closed
    connection.close()
    assert execute_alone(("SELECT 'yours'", []))[0].fetchone() == ("yours",)


def test_more_is_asked_and_answered_than_the_link_holds() -> None:
    """The server answers before everything was sent to it; whoever only sent would wait for ever, and so would it."""
    text, times = "x" * 4_000_000, 8
    found = execute_alone(*[("SELECT %s::text", [f"{n}{text}"]) for n in range(times)])
    assert [one.fetchone()[0][0] for one in found] == [str(n) for n in range(times)]


def test_a_workers_plan_goes_by_the_index_while_a_table_is_small(owner: psycopg.Connection[Any]) -> None:
    """It is kept for as long as the session, in which the table may grow."""
    tenant = make_tenant()
    owner.execute("CREATE TABLE changed (id int, a int) WITH (autovacuum_enabled = false)")
    owner.execute(f"GRANT ALL ON changed TO {APP}")
    try:
        owner.execute("CREATE INDEX ON changed (a)")
        owner.execute("INSERT INTO changed VALUES (1, 1)")
        owner.execute("VACUUM ANALYZE changed")
        connection.ensure_connection()
        plan_once(connection)
        assert scan_of_changed(tenant) == "Index Scan"
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
