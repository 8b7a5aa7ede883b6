"""A tenant, a real endpoint and mail server, and dispatchers in this process for the tests that start some."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import reading
from approvals import rendering
from outbox.actions.endpoints import add_endpoint
from outbox.dispatcher.dispatcher import Dispatcher
from outbox.models import Endpoint
from tests.approvals.world import World, render
from tests.outbox.receiving import OTHER_SECRET, SECRET, Listener, Mailbox
from tests.support import forget_workflows, install
from workflows.engine.connections import connect

Started = Callable[..., Any]


@pytest.fixture(autouse=True)
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_WEBHOOK_SAMPLE", SECRET)
    monkeypatch.setenv("COUNTERFOIL_WEBHOOK_OTHER", OTHER_SECRET)


@pytest.fixture
def listener() -> Iterator[Listener]:
    listening = Listener()
    yield listening
    listening.close()


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    box = Mailbox().open()
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", box.port
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.DEFAULT_FROM_EMAIL = "counterfoil@example.test"
    yield box
    box.close()


@pytest.fixture
def endpoint(tenant: Tenant, admin: Person, listener: Listener) -> Endpoint:
    return make_endpoint(tenant, admin, listener.url())


def make_endpoint(
    tenant: Tenant,
    admin: Person,
    url: str,
    name: str = "books",
    secret: str = "env:COUNTERFOIL_WEBHOOK_SAMPLE",
) -> Endpoint:
    made = add_endpoint(
        tenant_id=tenant.pk, name=name, url=url, secret_reference=secret, chosen=["case.opened"],
        person_id=admin.pk, now=timezone.now(),
    )  # fmt: skip
    with reading(tenant.pk):
        return Endpoint.objects.get(pk=made.endpoint_id)


@pytest.fixture
def started() -> Iterator[Started]:
    """`started("name")` runs a dispatcher until the test ends, as a worker process does."""
    ended = threading.Event()
    threads: list[threading.Thread] = []

    def start(name: str = "dispatcher-1") -> Dispatcher:
        dispatcher = Dispatcher(
            name=name, connect=partial(connect, "outbox"), clock=timezone.now, stopping=ended.is_set
        )
        thread = threading.Thread(target=dispatcher.run, daemon=True)
        thread.start()
        threads.append(thread)
        running.append(dispatcher)
        return dispatcher

    running: list[Dispatcher] = []
    yield start
    ended.set()
    for dispatcher in running:
        dispatcher.wake()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def world(settings: Any, transactional_db: None) -> Iterator[World]:
    """People, a policy and jobs whose proposals are frozen for real, with the workflow of those tests."""
    install(settings, "tests.workflows_for_tests")
    before = rendering.renders_operations(render)
    yield World.make()
    if before is not None:
        rendering.renders_operations(before)
    forget_workflows()
