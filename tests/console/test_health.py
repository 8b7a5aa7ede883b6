"""The health page, the command and the address for monitors: one look at the rows, in three places."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from access.models import Person, Tenant
from access.roles import Role
from tests.console.support import as_person, make_fan, make_job
from tests.support import make_person
from workflows import health
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
ADVICE = "Start `manage.py qcluster`; nothing goes on without one."


@contextmanager
def as_login() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        yield connection


def make_worker(*, lease: str = "1 minute", swept: str | None = "2 seconds", slots: int = 4) -> None:
    """A worker whose lease ends then, and that swept so long ago."""
    with as_login() as login:
        login.execute(
            "INSERT INTO workflows_worker (name, host, pid, slots, started_at, server_started_at, lease_until, swept_at,"
            " ended_why) VALUES ('w', 'host-a', 4711, %s, now(), now(), now() + %s::interval, now() - %s::interval, '')",
            [slots, lease, swept],
        )


def change(statement: str) -> None:
    with as_login() as login:
        login.execute("SET ROLE counterfoil_engine")
        login.execute(statement)


def levels() -> dict[str, str]:
    return {check.name: check.level for check in health.look().checks}


def command(*arguments: str) -> tuple[str, bool]:
    """What `manage.py health` says, and whether its exit code is 0."""
    out = StringIO()
    try:
        call_command("health", *arguments, stdout=out)
    except CommandError:
        return out.getvalue(), False
    return out.getvalue(), True


def test_working_machine_is_well_everywhere(tenant: Tenant) -> None:
    make_worker()
    operator = as_person(make_person(tenant, Role.OPERATOR))
    page = operator.get(reverse("health", args=[tenant.slug]))
    assert page.status_code == 200
    html = page.content.decode()
    assert "Everything does its work." in html
    assert "1 up, 0 of 4 slots at work" in html
    assert "host-a 4711" in html
    told, is_well = command()
    assert is_well
    assert re.search(r"^ok    Last sweep: \d+ s ago\.$", told, re.MULTILINE)
    monitored = Client().get("/healthz/work")
    assert (monitored.status_code, monitored.json()["status"]) == (200, "ok")
    assert Client().get("/healthz").json() == {"status": "ok"}
    assert Client(headers={"host": "10.1.2.3:8000"}).get("/healthz").json() == {"status": "ok"}


def test_machine_without_a_worker_is_late_everywhere(tenant: Tenant) -> None:
    operator = as_person(make_person(tenant, Role.OPERATOR))
    html = operator.get(reverse("health", args=[tenant.slug])).content.decode()
    assert "Something does not do its work." in html
    assert ADVICE in html
    told, is_well = command()
    assert not is_well
    assert f"late  Workers: none is running.  {ADVICE}" in told
    assert Client().get("/healthz/work").status_code == 503
    assert Client().get("/healthz").status_code == 200
    home = operator.get(reverse("home", args=[tenant.slug])).content.decode()
    assert "Last sweep" in home
    assert "never" in home


@pytest.mark.parametrize(
    ("made", "level"),
    [
        pytest.param({"swept": "30 seconds"}, "ok", id="in time"),
        pytest.param({"swept": "61 seconds"}, "late", id="late"),
        pytest.param({"swept": None}, "late", id="never"),
    ],
)
def test_sweep_turns_red_when_it_is_late(tenant: Tenant, made: dict[str, Any], level: str) -> None:
    make_worker(**made)
    assert levels()["Last sweep"] == level
    home = as_person(make_person(tenant, Role.AUDITOR)).get(reverse("home", args=[tenant.slug]))
    assert (b"Last sweep</dt><dd><span" in home.content) is (level == "late")


def test_worker_whose_lease_ran_out_is_no_worker() -> None:
    make_worker(lease="-1 second")
    assert levels()["Workers"] == "late"
    make_worker()
    assert levels()["Workers"] == "warn"


def test_work_that_nobody_takes_or_moves_is_late(tenant: Tenant, submitter: Person) -> None:
    """An old step while slots are free, and a retry that was due long ago."""
    make_worker(slots=1)
    job_id = make_job(tenant, submitter)
    assert levels()["Oldest step that could run"] == "ok"
    with as_login() as login:
        login.execute("UPDATE workflows_stage SET opened_at = now() - interval '10 minutes'")
    assert levels()["Oldest step that could run"] == "late"
    make_fan(tenant, job_id, [ItemState.BACKING_OFF])
    assert levels()["Retries and timers"] == "ok"
    change(
        "UPDATE workflows_workitem SET next_attempt_at = now() - interval '31 s' WHERE next_attempt_at IS NOT NULL"
    )
    assert levels()["Retries and timers"] == "late"
    change(
        "UPDATE workflows_workitem SET worker_id = 1, started_at = now(), state = 2"
        " WHERE state = 0 AND id = (SELECT min(id) FROM workflows_workitem)"
    )
    assert levels()["Oldest step that could run"] == "ok"


def test_open_transactions_are_named_with_what_to_do(tenant: Tenant) -> None:
    make_worker()
    with psycopg.connect(os.environ["DATABASE_URL"], application_name="a report") as reader:
        reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.execute("SELECT count(*) FROM access_tenant")
        assert levels()["Old transactions"] == "ok"
        told, is_well = command("--sessions-older-than", "0")
        assert is_well
        assert "warn  Old transactions: 1 open" in told
        assert f"session {reader.info.backend_pid}: a report, idle in transaction" in told
        found = json.loads(command("--sessions-older-than", "0", "--json")[0])
        assert [s["who"] for s in found["sessions"]] == ["a report"]
    assert "warn" not in command("--sessions-older-than", "0")[0]


@pytest.mark.parametrize(
    ("role", "status"),
    [
        (Role.OPERATOR, 200),
        (Role.ADMIN, 200),
        (Role.SUBMITTER, 403),
        (Role.MANAGER, 403),
        (Role.AUDITOR, 403),
    ],
)
def test_health_is_for_who_can_do_something_about_it(tenant: Tenant, role: Role, status: int) -> None:
    make_worker()
    person = as_person(make_person(tenant, role))
    assert person.get(reverse("health", args=[tenant.slug])).status_code == status
    home = person.get(reverse("home", args=[tenant.slug])).content.decode()
    assert (reverse("health", args=[tenant.slug]) in home) is (status == 200)
