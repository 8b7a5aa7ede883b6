"""The password asked for again on the page: the same desk until it is right, and nothing of it kept anywhere."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher
from django.db import connection, connections
from django.utils import timezone

from access import reentry
from access.models import PasswordEntry, Person
from access.reentry import WRONG_TRIES
from access.roles import Role
from access.tenancy import reading
from approvals.models import Decision
from tests.approvals.pages import HTMX, as_person, at, text
from tests.approvals.world import World
from tests.support import make_person

pytestmark = pytest.mark.django_db(transaction=True)
RIGHT, WRONG = "correct horse", "correct donkey"


@pytest.fixture
def mia(world: World) -> Person:
    """A manager with a password, where the policy asks for it again above 1,000.00 EUR."""
    world.policy(reauthenticate="above", reauthenticate_above={"amount": "1000.00", "currency": "EUR"})
    return make_person(world.tenant, Role.MANAGER)


def decided(world: World) -> list[tuple[str, bool]]:
    with reading(world.tenant.pk):
        return [(d.person_name, d.authenticated_at is not None) for d in Decision.objects.all()]


@pytest.mark.parametrize("headers", [{}, HTMX], ids=["page", "htmx"])
def test_the_desk_asks_for_the_password_until_it_is_right(
    world: World, mia: Person, headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    proposal, other = world.proposed(), world.proposed()
    client = as_person(mia)
    assert "asks for your password again above 1,000.00 EUR" in text(
        client.get(at(world, "approval", proposal))
    )
    form = {"verdict": "approve", "digest": proposal.digest}
    for given, said in (
        ({}, "asks for your password again before"),
        ({"password": WRONG}, "not your password"),
    ):
        told = client.post(at(world, "decision", proposal), {**form, **given}, headers=headers)
        assert (told.status_code, decided(world)) == (403, [])
        assert said in text(told)
        assert 'name="password"' in text(told)
        assert WRONG not in text(told)
        assert told.headers.get("HX-Retarget") == "#desk"
    done = client.post(at(world, "decision", proposal), {**form, "password": RIGHT}, headers=headers)
    assert (done.status_code, decided(world)) == (200 if headers else 302, [(mia.username, True)])
    assert 'name="password"' not in text(client.get(at(world, "approval", other)))
    assert not any(secret in caplog.text for secret in (RIGHT, WRONG))
    assert not any(secret in row for row in kept(world) for secret in (RIGHT, WRONG))


def kept(world: World) -> list[str]:
    """Everything that is stored about what happened, as text."""
    found = []
    with connection.cursor() as cursor, reading(world.tenant.pk):
        for table in (
            "workflows_journalentry",
            "approvals_refusal",
            "approvals_decision",
            "access_passwordentry",
        ):
            cursor.execute(f"SELECT t::text FROM {table} t")
            found += [row[0] for row in cursor.fetchall()]
    assert len(found) > 5
    return found


def test_signing_in_is_no_entry_and_saying_no_needs_none(world: World, mia: Person) -> None:
    proposal = world.proposed()
    client = as_person(mia)
    client.logout()
    assert client.login(username=mia.username, password=RIGHT)
    form = {"verdict": "approve", "digest": proposal.digest}
    assert client.post(at(world, "decision", proposal), form).status_code == 403
    form = {"verdict": "reject", "digest": proposal.digest, "reason": "No."}
    assert client.post(at(world, "decision", proposal), form).status_code == 302
    assert decided(world) == [(mia.username, False)]


def test_wrong_ones_run_out_and_then_the_right_one_does_not_help(world: World, mia: Person) -> None:
    proposal = world.proposed()
    client = as_person(mia)
    form = {"verdict": "approve", "digest": proposal.digest}
    for _ in range(WRONG_TRIES):
        client.post(at(world, "decision", proposal), {**form, "password": WRONG})
    told = client.post(at(world, "decision", proposal), {**form, "password": RIGHT})
    assert (told.status_code, decided(world)) == (403, [])
    assert "Try again after" in text(told)
    assert PasswordEntry.objects.filter(right=False).count() == WRONG_TRIES


class Slow(PBKDF2PasswordHasher):
    """A hash that takes as long as the test wants."""

    algorithm = "slow"
    iterations = 1
    begun, may_end = Event(), Event()

    def verify(self, password: str, encoded: str) -> bool:
        self.begun.set()
        assert self.may_end.wait(30)
        return super().verify(password, encoded)


def test_nobody_who_decides_waits_for_a_password_that_is_looked_at(world: World, settings: Any) -> None:
    """One thread is in the middle of the hash, with the person's row locked; the same person's decision goes through."""
    settings.PASSWORD_HASHERS = [f"{Slow.__module__}.Slow"]
    mia, proposal = make_person(world.tenant, Role.MANAGER), world.proposed()
    mia.set_password(RIGHT)
    mia.save()

    def enter() -> None:
        try:
            reentry.enter(person_id=mia.pk, password=RIGHT, session="s", now=timezone.now())
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        entering = pool.submit(enter)
        try:
            assert Slow.begun.wait(30)
            assert world.decide(proposal, mia).approvals == 1
        finally:
            Slow.may_end.set()
        entering.result()
    assert PasswordEntry.objects.get().right
