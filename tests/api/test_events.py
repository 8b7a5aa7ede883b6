"""Signed events over real HTTP: what is taken, what is kept, and what is told to whom."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from access.models import Person, Tenant, TenantEntry
from access.roles import Role
from access.tenancy import reading
from tests.support import eventually, install, make_person
from workflows.actions.event_sources import add_source, end_source, rotate_source
from workflows.actions.submit import submit_job
from workflows.engine.engine import Engine
from workflows.models import Expectation, ExternalEvent, WorkItem

pytestmark = pytest.mark.django_db(transaction=True)
SECRET = "whsec_" + base64.b64encode(b"a secret of thirty-two bytes....").decode()
OTHER = "whsec_" + base64.b64encode(b"another secret of 32 bytes......").decode()
SHIPMENT = {"key": "shipment R-7", "value": {"carrier": "Norvik", "parcels": 2}}


@pytest.fixture(autouse=True)
def installed(_installed: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install(settings, "tests.workflows.waiting")
    monkeypatch.setenv("COUNTERFOIL_EVENTS_ONE", SECRET)
    monkeypatch.setenv("COUNTERFOIL_EVENTS_TWO", OTHER)


@pytest.fixture
def source(tenant: Tenant, admin: Person) -> str:
    add_source(
        tenant_id=tenant.pk, name="carrier", secret_reference="env:COUNTERFOIL_EVENTS_ONE", person_id=admin.pk,
        now=timezone.now(),
    )  # fmt: skip
    return "carrier"


@pytest.fixture
def waiting_job(tenant: Tenant, source: str) -> Iterator[int]:
    """A job whose step waits for the event "shipment R-7"."""
    engine = Engine(slots=2, lease_seconds=20)
    engine.start_threads()
    made = submit_job(
        tenant_id=tenant.pk, workflow="test-shipping", value={}, submission_key=secrets.token_hex(4),
        person_id=make_person(tenant, Role.SUBMITTER).pk, source="test", now=timezone.now(),
    )  # fmt: skip

    def begun() -> bool:
        with reading(tenant.pk):
            return Expectation.objects.filter(begun_at__isnull=False).exists()

    eventually(begun, what="a wait")
    yield made.job_id
    engine.request_stop()
    engine.join()


def signature(secret: str, event_id: str, at: str, body: bytes) -> str:
    """As the standard says it, computed here and not by what is tested."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{event_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


@pytest.fixture
def post(live_server: Any, tenant: Tenant) -> Callable[..., httpx.Response]:
    """Sends an event: `post(content)`, signed with SECRET now unless something else is asked for."""

    def send(
        content: Any = SHIPMENT, *, event_id: str = "e-1", secret: str = SECRET, age: float = 0.0,
        to: str = "", **headers: str,
    ) -> httpx.Response:  # fmt: skip
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        at = str(int(time.time() - age))
        signed = {
            "webhook-id": event_id,
            "webhook-timestamp": at,
            "webhook-signature": signature(secret, event_id, at, body),
            "host": "localhost",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        address = f"{live_server.url}{to or f'/api/v1/t/{tenant.slug}/events/carrier'}"
        with httpx.Client(trust_env=False) as client:
            return client.post(address, content=body, headers=signed)

    return send


def kept(tenant: Tenant) -> list[tuple[str, str, str]]:
    with reading(tenant.pk):
        rows = ExternalEvent.objects.order_by("pk")
        return list(rows.values_list("event_id", "key", "closed_how"))


def problem(response: httpx.Response, status: int) -> dict[str, Any]:
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    body: dict[str, Any] = response.json()
    return body


def test_a_signed_event_ends_the_wait_once(
    post: Callable[..., httpx.Response], tenant: Tenant, waiting_job: int
) -> None:
    first = post()
    assert (first.status_code, first.json()) == (200, {"status": "used"})
    again = post()
    assert (again.status_code, again.json()) == (200, {"status": "used"})
    assert (first.headers.get("idempotency-replayed"), again.headers["idempotency-replayed"]) == (
        None,
        "true",
    )
    other = {**SHIPMENT, "value": {"carrier": "Norvik", "parcels": 3}}
    assert "e-1" in problem(post(other), 409)["detail"]
    assert kept(tenant) == [("e-1", "shipment R-7", "used")]

    def labelled() -> bool:
        with reading(tenant.pk):
            return WorkItem.objects.filter(job_id=waiting_job, stage__name="label", state=4).exists()

    eventually(labelled, what="the step after the wait")


def test_an_event_that_nobody_waits_for_is_kept(
    post: Callable[..., httpx.Response], tenant: Tenant, source: str
) -> None:
    first = post()
    assert (first.status_code, first.json()) == (202, {"status": "kept"})
    assert post().headers["idempotency-replayed"] == "true"
    assert kept(tenant) == [("e-1", "shipment R-7", "")]


def test_the_wrong_shape_is_named_by_field_and_the_same_id_may_come_again(
    post: Callable[..., httpx.Response], tenant: Tenant, waiting_job: int
) -> None:
    wrong = problem(post({**SHIPMENT, "value": {"carrier": "", "colour": "red"}}), 422)
    assert [e["field"] for e in wrong["errors"]] == ["value.carrier", "value.parcels", "value.colour"]
    assert kept(tenant) == []
    assert post().status_code == 200


def test_whatever_is_not_signed_well_is_answered_alike_and_leaves_nothing(
    post: Callable[..., httpx.Response], tenant: Tenant, source: str
) -> None:
    good = signature(SECRET, "e-1", str(int(time.time())), json.dumps(SHIPMENT).encode())
    refused = [
        post(secret=OTHER),
        post(age=310),
        post(age=-310),
        post(to="/api/v1/t/no-such-tenant/events/carrier"),
        post(to=f"/api/v1/t/{tenant.slug}/events/no-such-source"),
        post({**SHIPMENT, "key": "another"}, webhook_signature=good),
        post(webhook_id="e-2"),
        post(webhook_id=""),
        post(webhook_timestamp="soon"),
        post(webhook_timestamp="nan"),
        post(webhook_timestamp="9" * 400),
        post(webhook_signature=""),
        post(webhook_signature="v1"),
        post(webhook_signature="v1,%%%"),
        post(webhook_signature=good.replace("v1,", "v2,")),
        post(b"\xff\xfe"),
    ]
    answers = {(r.status_code, r.headers["content-type"], r.text) for r in refused}
    assert len(answers) == 1, answers
    assert problem(refused[0], 401)["detail"]
    assert kept(tenant) == []


def test_one_good_signature_among_several_is_enough(post: Callable[..., httpx.Response], source: str) -> None:
    body, at = json.dumps(SHIPMENT).encode(), str(int(time.time()))
    both = f"{signature(OTHER, 'e-1', at, body)} {signature(SECRET, 'e-1', at, body)}"
    assert post(webhook_timestamp=at, webhook_signature=both).status_code == 202
    assert post(event_id="e-2", age=295).status_code == 202


def test_an_ended_source_is_a_stranger(
    post: Callable[..., httpx.Response], tenant: Tenant, admin: Person, source: str
) -> None:
    end_source(tenant_id=tenant.pk, name=source, person_id=admin.pk, now=timezone.now())
    problem(post(), 401)


def test_after_a_rotation_both_secrets_hold_for_a_while(
    post: Callable[..., httpx.Response], tenant: Tenant, admin: Person, source: str
) -> None:
    now = timezone.now()
    told: dict[str, Any] = {"tenant_id": tenant.pk, "name": source, "person_id": admin.pk}
    second = "env:COUNTERFOIL_EVENTS_TWO"
    rotate_source(secret_reference=second, grace=timedelta(hours=1), now=now, **told)
    assert post(event_id="e-1").status_code == 202
    assert post(event_id="e-2", secret=OTHER).status_code == 202
    rotate_source(secret_reference="env:COUNTERFOIL_EVENTS_ONE", grace=timedelta(0), now=now, **told)
    problem(post(event_id="e-3", secret=OTHER), 401)
    assert post(event_id="e-3").status_code == 202


def test_a_secret_that_cannot_be_read_opens_nothing(
    post: Callable[..., httpx.Response], source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = "whsec_" + base64.b64encode(b"short").decode()
    for unusable in ("", "whsec_", "not base64 at all!", short):
        monkeypatch.setenv("COUNTERFOIL_EVENTS_ONE", unusable)
        problem(post(secret=short), 401)
        problem(post(secret="whsec_"), 401)


@pytest.mark.parametrize(
    ("body", "status", "fields"),
    [
        (b"{", 400, []),
        (b"[1]", 422, [""]),
        (b'{"key": "a"}', 422, ["value"]),
        (b'{"key": 1.5, "value": 1}', 422, ["key"]),
        (b'{"key": "a", "value": 1, "when": 2}', 422, ["when"]),
        (b'{"key": "", "value": 1}', 422, ["key"]),
        (json.dumps({"key": "x" * 201, "value": 1}).encode(), 422, ["key"]),
        (b'{"key": "a\\nb", "value": 1}', 422, ["key"]),
        (b'{"key": "a", "key": "b", "value": 1}', 422, ["key"]),
        (b'{"key": "a", "value": {"weight": 1.5}}', 422, ["value.weight"]),
        (b'{"key": "a", "value": "\\u0000"}', 422, ["value"]),
        (b'{"key": "a", "value": ' + b"[" * 200 + b"]" * 200 + b"}", 422, None),
        (b'{"key": "a", "value": "' + b"x" * 100_000 + b'"}', 413, []),
    ],
    ids=[
        "no JSON", "no object", "no value", "no text", "something else", "empty key", "long key", "line in the key",
        "key twice", "fraction", "NUL", "too deep", "too large",
    ],
)  # fmt: skip
def test_what_cannot_be_an_event_is_refused_and_not_kept(
    post: Callable[..., httpx.Response], tenant: Tenant, source: str, body: bytes, status: int,
    fields: list[str] | None,
) -> None:  # fmt: skip
    told = problem(post(body), status)
    if fields is not None:
        assert [e["field"] for e in told.get("errors", [])] == fields
    assert kept(tenant) == []


def test_rubbish_is_kept_up_to_a_limit_and_what_is_waited_for_is_taken_beyond_it(
    post: Callable[..., httpx.Response], tenant: Tenant, waiting_job: int, settings: Any
) -> None:
    settings.COUNTERFOIL_UNUSED_EVENTS = 2
    for number in range(2):
        assert post({"key": f"rubbish {number}", "value": None}, event_id=f"r-{number}").status_code == 202
    problem(post({"key": "rubbish 2", "value": None}, event_id="r-2"), 429)
    assert post().status_code == 200
    assert len(kept(tenant)) == 3


def test_a_server_without_the_revision_asks_for_the_event_again(
    post: Callable[..., httpx.Response], tenant: Tenant, waiting_job: int, settings: Any
) -> None:
    install(settings, "tests.console.workflows")
    problem(post(), 503)
    assert kept(tenant) == []


def test_only_posts_are_answered(live_server: Any, tenant: Tenant, source: str) -> None:
    with httpx.Client(trust_env=False) as client:
        address = f"{live_server.url}/api/v1/t/{tenant.slug}/events/{source}"
        assert client.get(address, headers={"host": "localhost"}).status_code == 405


def test_the_command_adds_rotates_lists_and_ends_a_source(
    post: Callable[..., httpx.Response], tenant: Tenant, admin: Person, capsys: pytest.CaptureFixture[str]
) -> None:
    by = ["--by", admin.username]
    call_command("event_source", "add", tenant.slug, "carrier", "--secret", "env:COUNTERFOIL_EVENTS_ONE", *by)
    assert f"/api/v1/t/{tenant.slug}/events/carrier" in capsys.readouterr().out
    assert post().status_code == 202
    call_command(
        "event_source", "rotate", tenant.slug, "carrier", "--secret", "env:COUNTERFOIL_EVENTS_NEW", *by
    )
    told = capsys.readouterr().out
    assert "env:COUNTERFOIL_EVENTS_NEW is not set here." in told
    assert told.splitlines()[-1].startswith("whsec_")
    call_command("event_source", "list", tenant.slug)
    assert capsys.readouterr().out == "carrier: env:COUNTERFOIL_EVENTS_NEW\n"
    call_command("event_source", "end", tenant.slug, "carrier", *by)
    problem(post(event_id="e-2"), 401)
    with reading(tenant.pk):
        events = TenantEntry.objects.order_by("sequence").values_list("event", "actor_name")
        assert list(events) == [(f"source.{e}", admin.username) for e in ("added", "rotated", "ended")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["add", "no-such", "a", "--secret", "env:COUNTERFOIL_EVENTS_ONE"], "no organisation"),
        (["add", "", "a", "--secret", "env:DATABASE_URL"], "env:COUNTERFOIL_EVENTS_…"),
        (["add", "", "Not Good", "--secret", "env:COUNTERFOIL_EVENTS_ONE"], "lower case"),
        (["rotate", "", "nobody", "--secret", "env:COUNTERFOIL_EVENTS_ONE"], "no source nobody"),
    ],
)
def test_the_command_says_what_is_wrong(
    tenant: Tenant, admin: Person, arguments: list[str], said: str
) -> None:
    arguments = [arguments[0], arguments[1] or tenant.slug, *arguments[2:], "--by", admin.username]
    with pytest.raises(CommandError, match=said):
        call_command("event_source", *arguments)
    operator = make_person(tenant, Role.OPERATOR)
    with pytest.raises(CommandError, match="Only an admin"):
        call_command(
            "event_source",
            "add",
            tenant.slug,
            "b",
            "--secret",
            "env:COUNTERFOIL_EVENTS_ONE",
            "--by",
            operator.username,
        )
