"""The page of a receiver's callbacks: its address, whether they can be checked here, and what came."""

from __future__ import annotations

import pytest
from django.test import Client

from access.roles import Role
from access.tenancy import reading
from dispatch.models import Receiver
from tests.dispatch.calling import by_key, call, public_id, secret, told
from tests.dispatch.world import Dispatching, a_keyed_contract
from tests.support import install, make_person

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["secret"]


def test_the_page_shows_what_came_and_what_named_nothing(
    client: Client, settings: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(settings, "tests.workflows_for_tests")
    d = Dispatching.make("http://127.0.0.1:9", a_keyed_contract(confirmation="later", callbacks=by_key()))
    job = d.ready()
    call(d, told(d.operation(job), "<b>queued</b>"), "m-1")
    call(d, told(d.operation(job), operation_key="nobodys"), "m-2")
    with reading(d.tenant_id):
        receiver = Receiver.objects.get(name="erp")
    address = f"/t/{d.world.tenant.slug}/receivers/{receiver.pk}/callbacks/"
    client.force_login(d.admin)
    page = client.get(address).content.decode()
    assert f"/api/v1/callbacks/{public_id(d)}" in page
    assert "1 named nothing here" in page
    assert d.operation(job).label in page
    assert "&lt;b&gt;queued" in page
    assert ">Unclear</span>" in page
    assert "no operation of this receiver had that key when it came" in page
    assert "is answered with 401 and leaves nothing here" in page
    assert page.index("nobodys") < page.index(d.operation(job).label)
    assert address in client.get(f"/t/{d.world.tenant.slug}/receivers/").content.decode()

    monkeypatch.delenv("COUNTERFOIL_RECEIVER_CALLS")
    assert "This server cannot check them" in client.get(address).content.decode()
    client.force_login(make_person(d.world.tenant, Role.SUBMITTER))
    assert client.get(address).status_code == 403
    assert client.get("/t/nowhere/receivers/1/callbacks/").status_code == 404
