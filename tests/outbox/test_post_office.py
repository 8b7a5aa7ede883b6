"""The post office of `make run`: two real processes that take letters and webhooks from an engine, and show them."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from examples.simulators.client import PostControl, Running, start_post
from tests.outbox.conftest import make_endpoint
from tests.outbox.telling import messages, tell, until_settled
from tests.support import make_person, running_engine
from workflows.engine.engine import Engine

pytestmark = pytest.mark.processes


@pytest.fixture
def office(tmp_path: Path, secrets: None) -> Iterator[Running]:
    with start_post(database=tmp_path / "post.sqlite3") as running:
        yield running


@pytest.fixture
def mail_server(tmp_path: Path, settings: Any) -> Iterator[Running]:
    with start_post(database=tmp_path / "post.sqlite3", mail=True) as running:
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", running.port
        settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        yield running


@pytest.fixture
def engine(transactional_db: None) -> Iterator[Engine]:
    with running_engine(2) as running:
        yield running


def test_an_engine_delivers_what_a_transaction_told_and_the_office_shows_it(
    tenant: Tenant, admin: Person, office: Running, mail_server: Running, engine: Engine
) -> None:
    Person.objects.filter(pk=admin.pk).update(email="ada@example.test")
    make_endpoint(tenant, admin, f"{office.base_url}/hook")
    tell(tenant, roles=[Role.ADMIN], now=timezone.now())
    until_settled(tenant)
    control = PostControl(office.base_url)
    (letter,), (hook,) = control.letters(), control.hooks()
    by_mail, by_hook = messages(tenant)
    assert (letter["recipient"], letter["subject"]) == (
        "ada@example.test",
        f"[{tenant.slug}] RC-0001 was opened",
    )
    assert by_mail.webhook_id in letter["message_id"]
    assert (hook["webhook_id"], hook["signature"], hook["body"]) == (
        by_hook.webhook_id,
        "good",
        by_hook.payload,
    )
    page = urllib.request.urlopen(f"{office.base_url}/").read().decode()
    for shown in ("ada@example.test", hook["webhook_id"], "RC-0001 was opened"):
        assert shown in page


def test_a_mail_server_that_hears_rubbish_says_so_and_takes_the_next_letter(
    tenant: Tenant, mail_server: Running, office: Running, engine: Engine
) -> None:
    with socket.create_connection(("127.0.0.1", mail_server.port), 10) as line:
        line.settimeout(10)
        talk = line.makefile("rwb")
        assert talk.readline().startswith(b"220")
        for said, answer in (
            (b"\xff\x00 what\r\n", b"502"),
            (b"DATA\r\n", b"503"),
            (b"RCPT TO:<a@b>\r\n", b"503"),
            (b"MAIL FROM:<a@b>\r\n", b"250"),
            (b"RSET\r\n", b"250"),
            (b"QUIT\r\n", b"221"),
        ):
            talk.write(said)
            talk.flush()
            assert talk.readline().startswith(answer), said
    Person.objects.filter(pk=(person := make_person(tenant, Role.OPERATOR)).pk).update(email="b@example.test")
    tell(tenant, people=[person.pk])
    until_settled(tenant)
    assert [one["recipient"] for one in PostControl(office.base_url).letters()] == ["b@example.test"]
