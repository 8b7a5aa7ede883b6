"""A dispatcher's process is killed on its way; whoever comes next goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.utils import timezone

from access.models import Tenant
from outbox.dispatcher.claiming import Lane, claim
from outbox.dispatcher.outcomes import Delivered
from outbox.dispatcher.recording import record
from outbox.models import Endpoint
from tests.outbox.conftest import Started
from tests.outbox.receiving import SECRET, Listener
from tests.outbox.telling import make_due, messages, tell, tries, until_settled
from tests.support import eventually
from workflows.engine.connections import connect

pytestmark = pytest.mark.processes


@contextmanager
def dispatcher_process(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings"}
    process = subprocess.Popen([sys.executable, "-m", "tests.outbox.dying", *arguments], env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_was_sent_and_not_recorded_goes_out_again_with_the_same_id(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    """Killed while the endpoint thinks, and again when it has answered and nothing is recorded; the third records."""
    listener.held.add("/hook")
    tell(tenant)
    with dispatcher_process() as first:
        eventually(lambda: listener.got, what="the first request")
        first.send_signal(signal.SIGKILL)
        first.wait()
    (message,) = messages(tenant)
    assert (message.claimed_by, message.attempts, message.delivered_at) == ("dying", 1, None)
    listener.let_go.set()
    make_due(tenant)
    with dispatcher_process("after-answer") as second:
        assert second.wait(60) == -signal.SIGKILL
    make_due(tenant)
    started("the third")
    (message,) = until_settled(tenant)
    assert (message.delivered_at is not None, message.attempts) == (True, 3)
    assert [got.webhook_id for got in listener.got] == [message.webhook_id] * 3
    assert all(got.is_signed_with(SECRET) for got in listener.got)
    assert tries(tenant) == [("delivered", "answered 204")]


def test_a_late_answer_of_a_lost_lease_changes_nothing_and_is_kept(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    """The first dispatcher stands still past its lease; another delivers; then the first one's answer comes."""
    listener.held.add("/hook")
    started("first")
    tell(tenant)
    eventually(lambda: listener.got, what="the first request")
    listener.held.clear()
    make_due(tenant)
    started("second")
    (message,) = until_settled(tenant)
    listener.let_go.set()
    found: Any = eventually(lambda: len(t := tries(tenant)) == 2 and t, what="both tries")
    assert sorted(found) == [("delivered", "answered 204"), ("stale", "answered 204")]
    assert messages(tenant)[0].delivered_at == message.delivered_at
    assert len(listener.got) == 2


def test_a_record_whose_commit_was_lost_from_sight_is_made_again_without_harm(
    tenant: Tenant, endpoint: Endpoint
) -> None:
    """The database commits and the link breaks before it says so: the dispatcher records the same try once more."""
    tell(tenant)
    with connect("test") as engine:
        (taken,) = claim(engine, Lane.PROMPT, 1, "d1")
    now = timezone.now()
    for _ in range(2):
        record(claim=taken, outcome=Delivered("answered 204"), began=now, now=now)
    assert tries(tenant) == [("delivered", "answered 204")]
    assert messages(tenant)[0].delivered_at == now
