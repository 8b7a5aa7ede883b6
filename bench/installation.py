"""A throw-away installation for one measurement: a database, a tenant, and real worker processes on it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from config import database

PROJECT = Path(__file__).resolve().parent.parent
WORKFLOWS = "bench.definitions"
_SETTINGS = {
    "COUNTERFOIL_WORKFLOWS": WORKFLOWS,
    "COUNTERFOIL_LOG_LEVEL": "WARNING",
    "COUNTERFOIL_INTERNAL_RECEIVERS": "*=127.0.0.1",
}


@dataclass
class Installation:
    """Owner's connection to the measured database, and how to submit to it."""

    url: str
    owner: psycopg.Connection[tuple[Any, ...]]
    tenant_id: int
    person_id: int

    def submit(self, workflow: str, value: dict[str, Any], times: int = 1) -> list[int]:
        """Jobs through the real action, as `times` submissions."""
        from django.utils import timezone

        from workflows.actions.submit import submit_job

        return [
            submit_job(
                tenant_id=self.tenant_id,
                workflow=workflow,
                value=value,
                submission_key=secrets.token_hex(8),
                person_id=self.person_id,
                source="bench",
                now=timezone.now(),
            ).job_id
            for _ in range(times)
        ]

    def another_tenant(self, slug: str) -> Installation:
        """The same database as another tenant's submitter sees it."""
        return Installation(self.url, self.owner, *_tenant(slug))

    def one(self, statement: str, *parameters: Any) -> Any:
        """The first column of a query's one row, as the owner."""
        row = self.owner.execute(statement, parameters).fetchone()
        return None if row is None else row[0]

    def until(self, look: Callable[[], Any], seconds: float = 180.0) -> Any:
        """The first truthy value of `look`."""
        deadline = time.monotonic() + seconds
        while not (value := look()):
            if time.monotonic() > deadline:
                raise TimeoutError("the measurement did not come to an end")
            time.sleep(0.05)
        return value


@contextlib.contextmanager
def installation() -> Iterator[Installation]:
    """A migrated database with one tenant and one submitter; dropped at the end."""
    name = f"counterfoil_bench_{secrets.token_hex(4)}"
    url = database.create_database(name)
    os.environ.update(_SETTINGS, DATABASE_URL=url, DJANGO_SETTINGS_MODULE="config.settings")
    try:
        yield _prepared(url)
    finally:
        from django.db import connections

        connections.close_all()
        del os.environ["DATABASE_URL"]
        database.drop_database(name)


def _prepared(url: str) -> Installation:
    import django
    from django.apps import apps

    if not apps.ready:
        django.setup()
    from django.core.management import call_command
    from django.db import connections

    connections.close_all()
    connections["default"].settings_dict["NAME"] = database.parameters(url)["NAME"]
    call_command("migrate", verbosity=0)
    return Installation(url, psycopg.connect(url, autocommit=True), *_tenant("bench"))


def _tenant(slug: str) -> tuple[int, int]:
    """A tenant and its submitter."""
    from access.models import Membership, Person, Tenant
    from access.roles import Role
    from access.tenancy import acting

    tenant = Tenant.objects.create(slug=slug, name=slug)
    person = Person.objects.create(username=slug)
    with acting(tenant.pk):
        Membership.objects.create(tenant=tenant, person=person, role=Role.SUBMITTER)
    return tenant.pk, person.pk


@contextlib.contextmanager
def workers(there: Installation, *, processes: int, slots: int) -> Iterator[subprocess.Popen[bytes]]:
    """A real `manage.py qcluster`, up and registered; stopped at the end."""
    environment = {**os.environ, "COUNTERFOIL_WORKERS": str(processes), "COUNTERFOIL_SLOTS": str(slots)}
    cluster = subprocess.Popen(
        [sys.executable, "manage.py", "qcluster"],
        cwd=PROJECT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        there.until(
            lambda: there.one("SELECT count(*) FROM workflows_worker WHERE ended_at IS NULL") == processes
        )
        yield cluster
    finally:
        cluster.send_signal(signal.SIGTERM)
        cluster.wait(30)
