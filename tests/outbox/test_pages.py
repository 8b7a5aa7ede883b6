"""The pages of notifications and the command: who sees and does what, and what happens when it goes wrong."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from access.models import Person, Tenant, TenantEntry
from access.roles import Role
from access.tenancy import acting, reading
from outbox.models import Endpoint, Message
from tests.outbox.conftest import make_endpoint
from tests.outbox.telling import messages, tell
from tests.support import make_person, make_tenant

FORM = {
    "name": "ledger",
    "url": "http://127.0.0.1:9/hook",
    "secret_reference": "env:COUNTERFOIL_WEBHOOK_SAMPLE",
    "chosen": ["case.opened", "approval.asked"],
}


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def journalled(tenant: Tenant) -> list[str]:
    with reading(tenant.pk):
        return list(TenantEntry.objects.order_by("sequence").values_list("event", flat=True))


def endpoint_of(tenant: Tenant) -> Endpoint:
    with reading(tenant.pk):
        return Endpoint.objects.get()


def give_up(tenant: Tenant) -> None:
    with acting(tenant.pk):
        Message.objects.update(
            next_attempt_at=None, given_up_at=timezone.now(), last_error="It answered <b>500</b>."
        )


def test_an_admin_adds_changes_tests_disables_and_enables_an_endpoint(tenant: Tenant, admin: Person) -> None:
    client, page = signed_in(admin), reverse("notifications", args=[tenant.slug])
    assert client.post(reverse("endpoint-add", args=[tenant.slug]), FORM).headers["Location"] == page
    endpoint = endpoint_of(tenant)
    at = [tenant.slug, endpoint.pk]
    changed = {**FORM, "secret_reference": "env:COUNTERFOIL_WEBHOOK_OTHER", "grace_hours": "2"}
    for name, given in (
        ("endpoint-change", changed),
        ("endpoint-test", {}),
        ("endpoint-disable", {"reason": "It moved."}),
    ):
        assert client.post(reverse(name, args=at), given).headers["Location"] == page, name
    endpoint = endpoint_of(tenant)
    assert (endpoint.secret_reference, endpoint.previous_reference) == (
        "env:COUNTERFOIL_WEBHOOK_OTHER",
        "env:COUNTERFOIL_WEBHOOK_SAMPLE",
    )
    shown = client.get(page).content.decode()
    for words in ("It moved.", "ledger", "A test of ledger: nothing has happened", "case.opened"):
        assert words in shown
    assert client.post(reverse("endpoint-test", args=at)).status_code == 409
    assert client.post(reverse("endpoint-enable", args=at)).headers["Location"] == page
    assert client.post(reverse("endpoint-enable", args=at)).status_code == 409
    assert journalled(tenant) == [
        "endpoint.added", "endpoint.changed", "endpoint.tested", "endpoint.disabled", "endpoint.enabled",
    ]  # fmt: skip
    assert [m.event for m in messages(tenant)] == ["endpoint.tested"]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "Ledger!"}, "An endpoint is named in lower case letters, digits and hyphens."),
        ({"url": "http://169.254.169.254/"}, "points inside"),
        ({"url": "http://[::1"}, "is no address"),
        ({"secret_reference": "hunter2"}, "A secret is named as env:COUNTERFOIL_WEBHOOK_"),
        ({"chosen": ["no.such"]}, "Select a valid choice"),
        ({"chosen": []}, "This field is required"),
        ({"name": "x" * 101}, "at most 100 characters"),
    ],
)
def test_a_form_that_will_not_do_comes_back_with_a_sentence(
    tenant: Tenant, admin: Person, changes: dict[str, Any], sentence: str
) -> None:
    answer = signed_in(admin).post(reverse("endpoint-add", args=[tenant.slug]), {**FORM, **changes})
    assert (answer.status_code, sentence in answer.content.decode()) == (422, True)
    with reading(tenant.pk):
        assert not Endpoint.objects.exists()
    assert journalled(tenant) == []


def test_two_endpoints_have_two_names_and_a_disabling_has_a_reason(tenant: Tenant, admin: Person) -> None:
    client, add = signed_in(admin), reverse("endpoint-add", args=[tenant.slug])
    client.post(add, FORM)
    again = client.post(add, FORM)
    assert (again.status_code, "There is an endpoint ledger already." in again.content.decode()) == (
        422,
        True,
    )
    disable = reverse("endpoint-disable", args=[tenant.slug, endpoint_of(tenant).pk])
    assert client.get(disable).status_code == 200
    assert client.post(disable, {"reason": " "}).status_code == 422
    assert endpoint_of(tenant).disabled_at is None


def test_an_endpoint_that_fails_says_why_while_its_newest_message_waits_for_its_turn(
    tenant: Tenant, admin: Person, endpoint: Endpoint
) -> None:
    tell(tenant, keys=["first", "second"], job=7)
    with acting(tenant.pk):
        Endpoint.objects.update(lagging_since=timezone.now())
        first = Message.objects.order_by("pk")[0]
        Message.objects.filter(pk=first.pk).update(attempts=1, last_error="It answered 503.")
    html = signed_in(admin).get(reverse("notifications", args=[tenant.slug])).content.decode()
    note = html[html.index("It has failed, or been slow") :]
    assert "It answered 503." in note[: note.index("</p>")]
    assert ">Retry waiting</span>" in html


def test_what_was_given_up_is_seen_and_sent_again_by_an_operator(tenant: Tenant, endpoint: Endpoint) -> None:
    operator = signed_in(make_person(tenant, Role.OPERATOR))
    tell(tenant, keys=["a", "b"])
    give_up(tenant)
    listed = operator.get(reverse("notifications", args=[tenant.slug]), {"show": "given-up"}).content.decode()
    assert "It answered &lt;b&gt;500&lt;/b&gt;." in listed
    first, second = messages(tenant)
    page = reverse("notification", args=[tenant.slug, first.pk])
    shown = operator.get(page).content.decode()
    assert "Send again" in shown
    assert first.webhook_id in shown
    again = reverse("notification-again", args=[tenant.slug, first.pk])
    assert operator.post(again).headers["Location"] == page
    after, untouched = messages(tenant)
    assert (after.given_up_at, after.next_attempt_at is not None) == (None, True)
    assert untouched.given_up_at == second.given_up_at
    assert operator.get(reverse("notifications", args=[tenant.slug]), {"show": "waiting"}).status_code == 200


ROLES = {
    Role.ADMIN: {"see", "send", "write"},
    Role.OPERATOR: {"see", "send"},
    Role.AUDITOR: {"see"},
    Role.MANAGER: set(),
    Role.SUBMITTER: set(),
}


@pytest.mark.parametrize("role", list(Role))
def test_each_role_sees_and_does_what_is_its_own(tenant: Tenant, endpoint: Endpoint, role: Role) -> None:
    tell(tenant)
    give_up(tenant)
    (message,) = messages(tenant)
    client, slug, may = signed_in(make_person(tenant, role)), tenant.slug, ROLES[role]
    asked = [
        ("see", client.get, "notifications", [slug]),
        ("see", client.get, "notification", [slug, message.pk]),
        ("send", client.post, "notification-again", [slug, message.pk]),
        ("send", client.post, "endpoint-test", [slug, endpoint.pk]),
        ("write", client.get, "endpoint-add", [slug]),
        ("write", client.get, "endpoint-change", [slug, endpoint.pk]),
        ("write", client.get, "endpoint-disable", [slug, endpoint.pk]),
        ("write", client.post, "endpoint-add", [slug]),
        ("write", client.post, "endpoint-change", [slug, endpoint.pk]),
        ("write", client.post, "endpoint-disable", [slug, endpoint.pk]),
        ("write", client.post, "endpoint-enable", [slug, endpoint.pk]),
    ]
    got = {name: call(reverse(name, args=args)).status_code != 403 for _, call, name, args in asked}
    assert got == {name: what in may for what, _, name, _ in asked}
    menu = client.get(reverse("home", args=[slug])).content.decode()
    assert (reverse("notifications", args=[slug]) in menu) is ("see" in may)


def test_another_organisation_finds_nothing_of_it(tenant: Tenant, endpoint: Endpoint) -> None:
    tell(tenant)
    (message,) = messages(tenant)
    other = make_tenant()
    client = signed_in(make_person(other, Role.ADMIN))
    for call, name, pk in (
        (client.get, "notification", message.pk),
        (client.post, "notification-again", message.pk),
        (client.get, "endpoint-change", endpoint.pk),
        (client.post, "endpoint-disable", endpoint.pk),
        (client.post, "endpoint-test", endpoint.pk),
    ):
        given = {"reason": "x"} if call == client.post else None
        assert call(reverse(name, args=[other.slug, pk]), given).status_code == 404, name
        assert call(reverse(name, args=[tenant.slug, pk]), given).status_code == 404, name
    assert endpoint_of(tenant).disabled_at is None
    assert [m.key for m in messages(tenant)] == ["case.opened/1"]


@pytest.mark.parametrize("count", [1, 3])
def test_the_list_costs_the_same_for_one_and_for_three(tenant: Tenant, admin: Person, count: int) -> None:
    for n in range(count):
        make_endpoint(tenant, admin, "http://127.0.0.1:9/", name=f"e{n}")
    tell(tenant, keys=[f"k{n}" for n in range(count)])
    client, page = signed_in(admin), reverse("notifications", args=[tenant.slug])
    client.get(page)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(page).status_code == 200
    asked = [
        q["sql"] for q in queries if q["sql"].startswith(("SELECT", "WITH")) and "set_config" not in q["sql"]
    ]
    assert len([sql for sql in asked if "outbox_" in sql]) == 3


def test_the_list_goes_on_page_by_page(
    tenant: Tenant, admin: Person, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outbox import queries

    monkeypatch.setattr(queries, "PAGE", 2)
    tell(tenant, keys=["a", "b", "c"])
    ids = [m.pk for m in messages(tenant)]
    with reading(tenant.pk):
        first = queries.messages(which="", before=0, now=timezone.now())
        rest = queries.messages(which="", before=first.older, now=timezone.now())
    assert [r.message.pk for r in first.rows] == [ids[2], ids[1]]
    assert ([r.message.pk for r in rest.rows], rest.older) == ([ids[0]], 0)


def test_the_command_lists_and_has_messages_sent_again(tenant: Tenant, endpoint: Endpoint) -> None:
    operator = make_person(tenant, Role.OPERATOR)
    tell(tenant, keys=["a", "b"])
    give_up(tenant)
    said = StringIO()
    call_command("messages", tenant.slug, show="given-up", stdout=said)
    lines = said.getvalue().splitlines()
    assert len(lines) == 2
    assert "given up  webhook to books: RC-0001 was opened (It answered <b>500</b>.)" in lines[0]
    with pytest.raises(CommandError, match="Name with --as"):
        call_command("messages", tenant.slug, send_again=["all-given-up"])
    with pytest.raises(CommandError, match="by their ids"):
        call_command("messages", tenant.slug, send_again=["; drop"], handle=operator.username)
    call_command(
        "messages", tenant.slug, send_again=["all-given-up"], handle=operator.username, stdout=StringIO()
    )
    assert {m.given_up_at for m in messages(tenant)} == {None}
    with pytest.raises(CommandError, match="1 not sent again"):
        call_command(
            "messages", tenant.slug, send_again=["999999999"], handle=operator.username, stderr=StringIO()
        )
    with pytest.raises(CommandError, match="There is no organisation nowhere"):
        call_command("messages", "nowhere")
