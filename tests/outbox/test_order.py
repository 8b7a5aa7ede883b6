"""What tells of one job reaches one recipient in the order in which it happened."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting
from outbox.dispatcher.claiming import Claim, Lane, claim
from outbox.dispatcher.outcomes import Delivered, Later, Never, Outcome
from outbox.dispatcher.recording import record
from outbox.models import Endpoint, Message
from tests.outbox.conftest import Started
from tests.outbox.receiving import Listener
from tests.outbox.telling import messages, tell, until_settled
from tests.support import make_person
from workflows.engine.connections import Connection, connect


@pytest.fixture
def engine(transactional_db: None) -> Iterator[Connection]:
    with connect("test") as connection:
        yield connection


def came_to(taken: Claim, outcome: Outcome) -> None:
    now = timezone.now()
    record(claim=taken, outcome=outcome, began=now, now=now)


def keys_of(tenant: Tenant, taken: list[Claim]) -> list[str]:
    names = {m.pk: m.key for m in messages(tenant)}
    return sorted(names[c.message_id] for c in taken)


def test_what_follows_waits_for_what_failed_and_other_jobs_do_not(
    tenant: Tenant, endpoint: Endpoint, engine: Connection
) -> None:
    tell(tenant, keys=["seven-1", "seven-2", "seven-3"], job=7)
    tell(tenant, keys=["eight-1"], job=8)
    tell(tenant, keys=["none-1", "none-2"])
    first, eight = sorted(claim(engine, Lane.PROMPT, 4, "d1"), key=lambda c: c.message_id)
    assert keys_of(tenant, [first, eight]) == ["eight-1", "seven-1"]
    came_to(first, Later("answered 500"))
    came_to(eight, Delivered("answered 204"))
    waiting = {m.key: m for m in messages(tenant)}
    again = waiting["seven-1"].next_attempt_at
    assert again is not None
    assert again > timezone.now()
    assert {waiting[k].next_attempt_at for k in ("seven-2", "seven-3")} == {again}
    taken = claim(engine, Lane.PROMPT, 4, "d1")
    assert keys_of(tenant, taken) == ["none-1", "none-2"], "nothing of job 7 is looked at before its first"


@pytest.mark.parametrize(
    "end", [Delivered("answered 204"), Never("refused"), Later("down", not_before=10**7)]
)
def test_the_next_goes_out_when_the_one_before_has_come_to_its_end(
    tenant: Tenant, endpoint: Endpoint, engine: Connection, end: Outcome
) -> None:
    """Arrived, refused for good, or given up after its last try."""
    tell(tenant, keys=["seven-1", "seven-2"], job=7)
    (first,) = claim(engine, Lane.PROMPT, 4, "d1")
    came_to(first, Later("answered 500"))
    engine.execute("UPDATE outbox_message SET next_attempt_at = now() WHERE id = %s", [first.message_id])
    (again,) = claim(engine, Lane.LAGGING, 4, "d1")
    assert again.message_id == first.message_id
    if isinstance(end, Later):
        with acting(tenant.pk):
            Message.objects.filter(pk=again.message_id).update(gives_up_at=timezone.now())
    came_to(again, end)
    lane = Lane.PROMPT if isinstance(end, Delivered) else Lane.LAGGING
    assert keys_of(tenant, claim(engine, lane, 4, "d1")) == ["seven-2"]


def test_two_dispatchers_bring_what_tells_of_a_job_one_by_one(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    keys = [f"seven-{n}" for n in range(8)]
    tell(tenant, keys=keys, job=7)
    started("d1")
    started("d2")
    settled = until_settled(tenant)
    assert [got.webhook_id for got in listener.got] == [m.webhook_id for m in settled]
    assert listener.most_under_way == 1


def test_the_page_of_a_message_whose_turn_has_not_come_says_what_it_waits_for(
    client: Client, tenant: Tenant, admin: Person, endpoint: Endpoint
) -> None:
    client.force_login(make_person(tenant, Role.OPERATOR))
    tell(tenant, keys=["seven-1", "seven-2"], job=7, now=timezone.now() - timedelta(minutes=1))
    first, second = messages(tenant)
    where = f"/t/{tenant.slug}/notifications/"
    behind = client.get(f"{where}{second.pk}/").content.decode()
    assert "Its turn has not come." in behind
    assert f'href="{where}{first.pk}/"' in behind
    assert "Try now" not in behind
    assert "when it is its turn" in behind
    before = client.get(f"{where}{first.pk}/").content.decode()
    assert "Its turn has not come." not in before
    assert "when it is its turn" not in before
    assert "Try now" in before
