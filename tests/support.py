"""What tests share: makers of tenants and people, an engine, calls at once, and waiting by looking."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from io import StringIO
from threading import Barrier
from typing import Any, TypeVar

import psycopg
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.core.management import call_command
from django.db import connections

from access.models import Membership, Person, Tenant
from access.refusals import Refused
from access.roles import Role
from access.tenancy import acting
from workflows import registry
from workflows.engine.engine import Engine

T = TypeVar("T")
PATIENCE = 4


def make_tenant(slug: str = "") -> Tenant:
    """A tenant with a slug of its own."""
    slug = slug or f"tenant-{secrets.token_hex(3)}"
    return Tenant.objects.create(slug=slug, name=slug.capitalize())


def make_person(tenant: Tenant, *roles: Role, handle: str = "") -> Person:
    """A person with these roles in the tenant, and the password "correct horse"."""
    (person,) = make_people(tenant, {handle or f"p.{secrets.token_hex(3)}": roles})
    return person


def make_people(tenant: Tenant, roles_of: Mapping[str, Sequence[Role]]) -> list[Person]:
    """Several people at once, by their handles."""
    people = [Person(username=handle, password=_password()) for handle in roles_of]
    Person.objects.bulk_create(people)
    with acting(tenant.pk):
        Membership.objects.bulk_create(
            Membership(tenant=tenant, person=person, role=role)
            for person in people
            for role in roles_of[person.username]
        )
    return people


@cache
def _password() -> str:
    return PBKDF2PasswordHasher().encode("correct horse", salt="tests", iterations=1)


def command(name: str, *arguments: object) -> str:
    """What a command of ours says; CommandError where it refuses."""
    said = StringIO()
    call_command(name, *map(str, arguments), stdout=said)
    return said.getvalue()


def install(settings: Any, *modules: str) -> None:
    """The workflows of these modules in place of whatever this process knew. Put back by `forget_workflows`."""
    settings.COUNTERFOIL_WORKFLOWS = list(modules)
    forget_workflows()


def forget_workflows() -> None:
    """Have this process load its workflows anew when they are next asked for."""
    registry.workflows.cache_clear()
    registry.digests.cache_clear()


def eventually(look: Callable[[], T], *, seconds: float = 20.0, what: str = "") -> T:
    """The first truthy value of `look`, polled; AssertionError with `what` when there is none in time.

    `seconds` are those of a calm machine: what is judged is that it happens, so a busy one gets more.
    """
    deadline = time.monotonic() + PATIENCE * seconds
    while True:
        value = look()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not seen within {PATIENCE * seconds:g} s: {what or look}")
        time.sleep(0.02)


def awaiting_locks(session: psycopg.Connection[Any]) -> int:
    """How many sessions of this session's database wait for a lock. Those of other test processes are not counted."""
    row = session.execute(
        "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted AND pid IN (SELECT pid FROM pg_locks"
        " WHERE database = (SELECT oid FROM pg_database WHERE datname = current_database()))"
    ).fetchone()
    assert row is not None
    return int(row[0])


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls in threads with connections of their own, released together; what each returned or refused."""
    barrier = Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        try:
            connections["default"].ensure_connection()
            barrier.wait(10)
            return call()
        except Refused as refused:
            return refused
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


@contextmanager
def running_engine(slots: int) -> Iterator[Engine]:
    """An engine with this many slots in this process, stopped and signed off at the end."""
    engine = Engine(slots=slots, lease_seconds=20)
    engine.start_threads()
    try:
        yield engine
    finally:
        engine.request_stop()
        engine.join()
