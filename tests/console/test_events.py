"""The page of events from outside: sources, what nobody used and why, and giving it up."""

from __future__ import annotations

import base64
import html
from typing import Any

import pytest
from django.utils import timezone

from access.models import Person, Tenant, TenantEntry
from access.roles import Role
from access.tenancy import reading
from console.links import link
from tests.console.support import HOSTILE, as_person
from tests.support import make_person, make_tenant
from workflows.actions.event_sources import add_source, end_source
from workflows.actions.receive_event import receive_event
from workflows.models import ExternalEvent

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def sources(tenant: Tenant, admin: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERFOIL_EVENTS_ONE", "whsec_" + base64.b64encode(bytes(32)).decode())
    told: dict[str, Any] = {"tenant_id": tenant.pk, "person_id": admin.pk, "now": timezone.now()}
    for name, variable in (("carrier", "ONE"), ("customs", "TWO"), ("old-carrier", "ONE")):
        add_source(name=name, secret_reference=f"env:COUNTERFOIL_EVENTS_{variable}", **told)
    end_source(name="old-carrier", **told)


def send(tenant: Tenant, key: str, value: Any = 1) -> None:
    receive_event(
        tenant_id=tenant.pk,
        source="carrier",
        event_id=f"id of {key}"[:200],
        key=key,
        value=value,
        now=timezone.now(),
    )


def text(person: Person, tenant: Tenant, query: str = "") -> str:
    response = as_person(person).get(link("events", tenant.slug) + query)
    assert response.status_code == 200
    return html.unescape(response.content.decode())


def test_an_admin_sees_every_source_and_what_is_wrong_with_it(tenant: Tenant, admin: Person) -> None:
    shown = text(admin, tenant)
    assert f"/api/v1/t/{tenant.slug}/events/carrier" in shown
    assert "env:COUNTERFOIL_EVENTS_TWO is not set here." in shown
    assert shown.count("Cannot be checked") == 1
    assert shown.count("Ended") == 1
    assert "whsec_" not in shown


def test_what_nobody_used_is_listed_with_its_reason_and_can_be_discarded(
    tenant: Tenant, admin: Person
) -> None:
    send(tenant, "shipment R-7", {"parcels": 2})
    shown = text(admin, tenant)
    assert "nobody has waited for this key" in shown
    assert '"parcels":2' in shown
    assert "1 of 1000 kept unused" in shown
    with reading(tenant.pk):
        event = ExternalEvent.objects.get()
    client = as_person(make_person(tenant, Role.OPERATOR))
    address = link("event-discard", tenant.slug, event.pk)
    assert client.get(address).status_code == 405
    assert client.post(address).status_code == 302
    assert client.post(address).status_code == 404
    assert "shipment R-7" not in text(admin, tenant)
    with reading(tenant.pk):
        event.refresh_from_db()
        assert (event.closed_how, event.value) == ("discarded", "")
        assert TenantEntry.objects.filter(event="event.discarded").count() == 1


def test_only_who_answers_for_it_reads_it(tenant: Tenant, admin: Person) -> None:
    send(tenant, "shipment R-7")
    with reading(tenant.pk):
        event = ExternalEvent.objects.get()
    for role, status in (
        (Role.SUBMITTER, 403),
        (Role.MANAGER, 403),
        (Role.AUDITOR, 200),
        (Role.OPERATOR, 200),
    ):
        person = as_person(make_person(tenant, role))
        assert person.get(link("events", tenant.slug)).status_code == status
        receivers = person.get(link("receivers", tenant.slug)).content.decode()
        assert (link("events", tenant.slug) in receivers) is (status == 200)
    auditor = as_person(make_person(tenant, Role.AUDITOR))
    assert auditor.post(link("event-discard", tenant.slug, event.pk)).status_code == 403
    outsider = as_person(make_person(make_tenant(), *Role))
    assert outsider.get(link("events", tenant.slug)).status_code == 404
    assert outsider.post(link("event-discard", tenant.slug, event.pk)).status_code == 404


def test_many_events_are_paged_and_hostile_ones_are_escaped(tenant: Tenant, admin: Person) -> None:
    send(tenant, HOSTILE, HOSTILE)
    for number in range(55):
        send(tenant, f"rubbish {number}")
    first = text(admin, tenant)
    assert first.count("kept unused") == 3
    assert "rubbish 54" in first
    assert "rubbish 3\n" not in first
    with reading(tenant.pk):
        cut = ExternalEvent.objects.get(key="rubbish 5")
    raw = as_person(admin).get(link("events", tenant.slug) + f"?before={cut.pk + 1}").content.decode()
    assert "rubbish 5" in raw
    assert "<img" not in raw
    assert "&lt;img src=x" in raw
