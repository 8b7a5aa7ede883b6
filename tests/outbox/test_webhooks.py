"""Webhooks over real sockets: what is posted, how an answer is understood, and what is tried again."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from outbox.actions.endpoints import BadEndpoint, add_endpoint, change_endpoint, disable_endpoint
from outbox.actions.messages import NotSentAgain, send_again
from outbox.dispatcher import webhook
from outbox.dispatcher.outcomes import CAP_SECONDS, Later, pause
from outbox.models import Endpoint
from tests.outbox.conftest import Started, make_endpoint
from tests.outbox.receiving import OTHER_SECRET, SECRET, Listener
from tests.outbox.telling import make_due, messages, notice, tell, tries, until_settled, until_tried
from tests.support import eventually, make_person, make_tenant

REFERENCE = "env:COUNTERFOIL_WEBHOOK_SAMPLE"


def test_a_message_is_posted_once_signed_and_thin(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    started()
    assert tell(tenant) == 1
    (message,) = until_settled(tenant)
    (got,) = listener.got
    assert got.is_signed_with(SECRET)
    assert not got.is_signed_with(OTHER_SECRET)
    assert got.webhook_id == message.webhook_id
    assert json.loads(got.body) == {
        "type": "case.opened",
        "timestamp": message.created_at.isoformat(),
        "data": {
            "case": 1, "organisation": tenant.slug, "title": "RC-0001 was opened",
            "link": f"http://127.0.0.1:8000/t/{tenant.slug}/",
        },
    }  # fmt: skip
    assert message.delivered_at is not None
    assert (message.attempts, message.claimed_by, message.last_error) == (1, "", "")
    assert tries(tenant) == [("delivered", "answered 204")]


def test_an_endpoint_that_did_not_choose_the_event_is_told_nothing(
    tenant: Tenant, endpoint: Endpoint
) -> None:
    with acting(tenant.pk):
        Endpoint.objects.update(events=["proposal.expired"])
    assert tell(tenant) == 0
    assert messages(tenant) == []


def test_a_failure_is_tried_again_with_the_same_id_until_it_is_taken(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    listener.answers["/hook"] = [500, 302, 204]
    dispatcher = started()
    tell(tenant)
    for times in (1, 2):
        until_tried(tenant, times)
        make_due(tenant)
        dispatcher.wake()
    (message,) = until_settled(tenant)
    assert tries(tenant) == [
        ("failed", "It answered 500."),
        ("failed", "It answered 302, which leads elsewhere and is not followed."),
        ("delivered", "answered 204"),
    ]
    assert {got.webhook_id for got in listener.got} == {message.webhook_id}
    assert len({got.body for got in listener.got}) == 1
    assert all(got.is_signed_with(SECRET) for got in listener.got)


def test_an_endpoint_that_asks_for_time_is_given_it(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    listener.answers["/hook"], listener.headers["/hook"] = [429], {"Retry-After": "3600"}
    started()
    tell(tenant)
    until_tried(tenant, 1)
    (message,) = messages(tenant)
    assert message.next_attempt_at is not None
    assert message.next_attempt_at - timezone.now() > timedelta(minutes=59)


def test_pauses_grow_by_chance_up_to_a_bound_and_never_end() -> None:
    assert all(1.0 <= pause(1) <= 10.0 for _ in range(200))
    late = [pause(50) for _ in range(200)]
    assert max(late) <= CAP_SECONDS
    assert len({round(p) for p in late}) > 50
    assert pause(1, not_before=10**9) == CAP_SECONDS


def test_what_cannot_be_delivered_in_its_time_is_given_up_and_can_be_sent_again(
    tenant: Tenant, admin: Person, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    listener.answers["/hook"] = [500, 204]
    dispatcher = started()
    tell(tenant, now=timezone.now() - timedelta(hours=72))
    (message,) = until_settled(tenant)
    assert message.given_up_at is not None
    assert (message.reported_at, message.last_error) == (None, "It answered 500.")
    send_again(tenant_id=tenant.pk, message_id=message.pk, person_id=admin.pk, now=timezone.now())
    dispatcher.wake()
    (message,) = until_settled(tenant)
    assert (message.delivered_at is not None, message.given_up_at, message.last_error) == (True, None, "")
    with pytest.raises(NotSentAgain, match="delivered already"):
        send_again(tenant_id=tenant.pk, message_id=message.pk, person_id=admin.pk, now=timezone.now())


def test_an_endpoint_that_says_it_is_gone_is_disabled_and_told_nothing_more(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    listener.answers["/hook"] = [410]
    started()
    tell(tenant)
    (message,) = until_settled(tenant)
    assert message.given_up_at is not None
    with reading(tenant.pk):
        known = Endpoint.objects.get()
    assert (known.disabled_reason, known.disabled_at is not None) == (message.last_error, True)
    assert tell(tenant, keys=["case.opened/2"]) == 0


def test_what_waits_for_a_disabled_endpoint_is_given_up_without_a_word(
    tenant: Tenant, admin: Person, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    tell(tenant)
    disable_endpoint(
        tenant_id=tenant.pk, endpoint_id=endpoint.pk, person_id=admin.pk, reason="moved", now=timezone.now()
    )
    started()
    (message,) = until_settled(tenant)
    assert message.last_error == "The endpoint was disabled: moved"
    assert message.reported_at is not None
    assert listener.got == []


def test_both_secrets_sign_while_one_takes_over_from_the_other(
    tenant: Tenant, admin: Person, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    change_endpoint(
        tenant_id=tenant.pk, endpoint_id=endpoint.pk, url=endpoint.url,
        secret_reference="env:COUNTERFOIL_WEBHOOK_OTHER", chosen=endpoint.events, grace=timedelta(days=1),
        person_id=admin.pk, now=timezone.now(),
    )  # fmt: skip
    started()
    tell(tenant)
    until_settled(tenant)
    (got,) = listener.got
    assert got.is_signed_with(OTHER_SECRET)
    assert got.is_signed_with(SECRET)
    with acting(tenant.pk):
        Endpoint.objects.update(previous_until=timezone.now())
    tell(tenant, keys=["case.opened/2"])
    until_settled(tenant)
    assert [g.is_signed_with(SECRET) for g in listener.got] == [True, False]
    assert listener.got[1].is_signed_with(OTHER_SECRET)


def test_without_its_secret_nothing_is_sent_and_the_message_waits(
    tenant: Tenant, admin: Person, listener: Listener, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_endpoint(tenant, admin, listener.url(), secret="env:COUNTERFOIL_WEBHOOK_NOWHERE")
    started()
    tell(tenant)
    assert until_tried(tenant, 1) == [
        ("failed", "It cannot be signed: env:COUNTERFOIL_WEBHOOK_NOWHERE is not set here.")
    ]
    assert listener.got == []


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[::ffff:127.0.0.1]:5432/",
        "http://2130706433/",
        "http://user:password@example.com/",
        "ftp://example.com/",
        "http://10.0.0.5/",
    ],
)
def test_an_address_that_points_inside_is_refused_when_it_is_saved(
    tenant: Tenant, admin: Person, url: str
) -> None:
    with pytest.raises(BadEndpoint):
        make_endpoint(tenant, admin, url)
    with reading(tenant.pk):
        assert not Endpoint.objects.exists()


def test_a_secret_signs_for_one_organisation_alone(tenant: Tenant, admin: Person, listener: Listener) -> None:
    """An admin of another organisation names it, by a new endpoint and by a change: they would be sent signatures of it."""
    ours = make_endpoint(tenant, admin, listener.url())
    other = make_tenant()
    theirs = make_person(other, Role.ADMIN)
    with pytest.raises(BadEndpoint, match="signs for another organisation"):
        make_endpoint(other, theirs, listener.url())
    kept = make_endpoint(other, theirs, listener.url(), secret="env:COUNTERFOIL_WEBHOOK_OTHER")
    change: dict[str, Any] = {
        "url": listener.url(), "chosen": ["case.opened"], "grace": timedelta(hours=1), "now": timezone.now(),
    }  # fmt: skip
    with pytest.raises(BadEndpoint, match="signs for another organisation"):
        change_endpoint(
            tenant_id=other.pk, endpoint_id=kept.pk, person_id=theirs.pk, secret_reference=REFERENCE, **change
        )
    # What signs for a while after a change is still ours.
    change_endpoint(
        tenant_id=tenant.pk,
        endpoint_id=ours.pk,
        person_id=admin.pk,
        secret_reference=f"{REFERENCE}_2",
        **change,
    )
    with pytest.raises(BadEndpoint, match="signs for another organisation"):
        make_endpoint(other, theirs, listener.url(), name="again")
    with reading(other.pk):
        assert [e.secret_reference for e in Endpoint.objects.all()] == ["env:COUNTERFOIL_WEBHOOK_OTHER"]


def test_a_name_that_moves_inside_is_refused_when_it_is_sent_to(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    settings.COUNTERFOIL_INTERNAL_RECEIVERS = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: [(2, 1, 6, "", ("10.0.0.5", 80))])
    outcome = webhook.post(webhook.Post("http://hook.example/", "msg_1", "{}", [SECRET]), timezone.now())
    assert isinstance(outcome, Later)
    assert outcome.said.startswith("Nothing was sent: hook.example points inside (10.0.0.5).")


@pytest.mark.parametrize(
    ("name", "reference", "chosen"),
    [
        ("Books", REFERENCE, ["case.opened"]),
        ("books", "env:DATABASE_URL", ["case.opened"]),
        ("books", "whsec_c2VjcmV0", ["case.opened"]),
        ("books", REFERENCE, ["no.such"]),
        ("books", REFERENCE, []),
    ],
)
def test_an_endpoint_that_says_too_little_or_too_much_is_not_kept(
    tenant: Tenant, admin: Person, name: str, reference: str, chosen: list[str]
) -> None:
    with pytest.raises(BadEndpoint):
        add_endpoint(
            tenant_id=tenant.pk, name=name, url="http://127.0.0.1/", secret_reference=reference, chosen=chosen,
            person_id=admin.pk, now=timezone.now(),
        )  # fmt: skip


def test_a_slow_endpoint_holds_up_neither_another_nor_itself_for_good(
    tenant: Tenant, admin: Person, listener: Listener, started: Started
) -> None:
    """One endpoint answers nothing while forty messages wait for it; the other's all arrive meanwhile."""
    make_endpoint(tenant, admin, listener.url("/slow"), name="slow")
    make_endpoint(tenant, admin, listener.url("/quick"), name="quick")
    listener.held.add("/slow")
    started()
    started("dispatcher-2")
    tell(tenant, keys=[f"case.opened/{n}" for n in range(40)])
    eventually(lambda: len(listener.at("/quick")) == 40, what="all messages at the quick endpoint")
    assert len(listener.at("/slow")) == 2, "so many are under way at one endpoint, over all dispatchers"
    listener.let_go.set()
    until_settled(tenant)
    ids = [got.webhook_id for got in listener.got]
    assert (len(ids), len(set(ids))) == (80, 80)


def test_two_dispatchers_share_the_work_and_nothing_goes_out_twice(
    tenant: Tenant, admin: Person, listener: Listener, started: Started
) -> None:
    for n in range(6):
        make_endpoint(tenant, admin, listener.url(f"/{n}"), name=f"e{n}")
    for n in range(3):
        started(f"dispatcher-{n}")
    tell(tenant, keys=[f"case.opened/{n}" for n in range(20)])
    until_settled(tenant)
    ids = [got.webhook_id for got in listener.got]
    assert (len(ids), len(set(ids))) == (120, 120)
    assert {m.attempts for m in messages(tenant)} == {1}


def test_a_message_is_written_once_however_often_it_is_told(tenant: Tenant, endpoint: Endpoint) -> None:
    tell(tenant)
    tell(tenant)
    tell(tenant, keys=["case.opened/2"])
    assert [m.key for m in messages(tenant)] == ["case.opened/1", "case.opened/2"]


def test_a_message_that_rolls_back_with_its_cause_never_existed(
    tenant: Tenant, endpoint: Endpoint, listener: Listener, started: Started
) -> None:
    from outbox.writing import write

    dispatcher = started()

    def fails_after_writing() -> None:
        with acting(tenant.pk):
            write(notice(), now=timezone.now())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_after_writing()
    tell(tenant, keys=["case.opened/2"])
    dispatcher.wake()
    until_settled(tenant)
    assert [m.key for m in messages(tenant)] == ["case.opened/2"]
    assert len(listener.got) == 1
