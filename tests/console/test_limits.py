"""The page of limits: what holds is shown, an admin sets and drops, nobody else may, and rubbish gets a sentence."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from io import StringIO
from typing import Any

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client

from access.models import Person, Tenant, TenantEntry
from access.roles import Role
from access.tenancy import reading
from tests.support import awaiting_locks, eventually, install, make_person, make_tenant
from workflows.models import Limit, SharedLimit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def workflows_that_name_a_limit(settings: Any, _installed: None) -> None:
    install(settings, "tests.workflows.fan_outs")


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def _hidden(page: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]+)"', page)
    assert found is not None
    return found[1]


def stored(tenant: Tenant) -> list[tuple[str, int | None, Decimal | None]]:
    with reading(tenant.pk):
        return list(Limit.objects.values_list("name", "concurrency", "cost_per_day"))


def test_a_limit_that_a_workflow_names_and_nobody_set_is_said(tenant: Tenant, admin: Person) -> None:
    page = signed_in(admin).get(f"/t/{tenant.slug}/limits/").content.decode()
    assert "model-a" in page
    assert "everything: workflows name it, and nobody has set it" in page
    assert "test-limited" in page


def test_an_admin_sets_changes_and_drops_a_limit(tenant: Tenant, admin: Person) -> None:
    client = signed_in(admin)
    url = f"/t/{tenant.slug}/limits/"
    given = {"name": "model-a", "concurrency": "4", "cost_per_day": "25.50"}
    assert client.post(f"{url}set/", given).status_code == 302
    assert stored(tenant) == [("model-a", 4, Decimal("25.5"))]
    assert 'value="25.5"' in client.get(f"{url}set/?name=model-a").content.decode()
    assert client.post(f"{url}set/", {"name": "model-a", "requests_per_minute": "60"}).status_code == 302
    assert stored(tenant) == [("model-a", None, None)]
    assert "60" in client.get(url).content.decode()
    asked = client.get(f"{url}drop/?name=model-a").content.decode()
    assert "Drop model-a?" in asked
    assert "0 steps run and 0 wait under it now" in asked
    assert stored(tenant) == [("model-a", None, None)]
    seen = {"name": "model-a", "as_of": _hidden(asked, "as_of")}
    client.post(f"{url}set/", {"name": "model-a", "concurrency": "9"})
    late = client.post(f"{url}drop/", seen)
    assert (late.status_code, stored(tenant)) == (409, [("model-a", 9, None)])
    assert "set model-a anew meanwhile" in late.content.decode()
    seen["as_of"] = _hidden(client.get(f"{url}drop/?name=model-a").content.decode(), "as_of")
    assert client.post(f"{url}drop/", seen).status_code == 302
    assert stored(tenant) == []
    assert client.post(f"{url}drop/", seen).status_code == 409
    assert client.get(f"{url}drop/?name=model-a").status_code == 409


@pytest.mark.parametrize("role", [r for r in Role if r is not Role.ADMIN])
def test_only_an_admin_sets_limits(tenant: Tenant, role: Role) -> None:
    client = signed_in(make_person(tenant, role))
    assert client.get(f"/t/{tenant.slug}/limits/").status_code == 200
    for page, given in (("set", {"name": "model-a", "concurrency": "1"}), ("drop", {"name": "model-a"})):
        assert client.post(f"/t/{tenant.slug}/limits/{page}/", given).status_code == 403
    assert stored(tenant) == []


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"name": "model-a"}, "Say at least one of"),
        ({"name": "Model A", "concurrency": "1"}, "Name it as workflows do"),
        ({"name": "model-a", "concurrency": "0"}, "greater than or equal to 1"),
        ({"name": "model-a", "concurrency": "9999999999"}, "less than or equal to"),
        ({"name": "model-a", "cost_per_day": "NaN"}, "Enter a number"),
        ({"name": "model-a", "cost_per_day": "-1"}, "greater than or equal to 0"),
        ({"name": "model-a", "cost_per_day": "1e30"}, "digits"),
        ({"name": "", "concurrency": "1"}, "required"),
    ],
)
def test_a_limit_that_means_nothing_is_refused_with_a_sentence(
    tenant: Tenant, admin: Person, given: dict[str, str], told: str
) -> None:
    answer = signed_in(admin).post(f"/t/{tenant.slug}/limits/set/", given)
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert stored(tenant) == []


def test_a_name_that_no_database_takes_is_the_name_of_nothing(tenant: Tenant, admin: Person) -> None:
    client = signed_in(admin)
    assert client.get(f"/t/{tenant.slug}/limits/set/?name=%00").status_code == 200
    assert client.post(f"/t/{tenant.slug}/limits/drop/", {"name": "\0"}).status_code == 409


def test_two_who_set_a_new_limit_at_once_both_set_it(tenant: Tenant, admin: Person) -> None:
    """C holds the head of the tenant's journal. A and B both want a limit that there is not: one has written it and
    waits for C, the other waits for the first. C lets go, the first commits, and the second changes what is there."""
    client, url = signed_in(admin), f"/t/{tenant.slug}/limits/set/"
    client.post(url, {"name": "model-b", "concurrency": "1"})
    with psycopg.connect(os.environ["DATABASE_URL"]) as head, ThreadPoolExecutor(2) as people:
        head.execute("SELECT 1 FROM access_tenanthead WHERE tenant_id = %s FOR UPDATE", [tenant.pk])
        pressed = [
            people.submit(_post, admin, url, {"name": "model-a", "concurrency": count})
            for count in ("3", "4")
        ]
        eventually(lambda: awaiting_locks(head) == 2, what="both waiting")
        head.commit()
        assert [p.result(20) for p in pressed] == [302, 302]
    with reading(tenant.pk):
        told = [json.loads(e.evidence) for e in TenantEntry.objects.order_by("sequence")][1:]
    first, second = (t["after"] for t in told)
    assert [t["before"] for t in told] == [{}, first]
    assert {first["concurrency"], second["concurrency"]} == {3, 4}
    assert sorted(stored(tenant))[:1] == [("model-a", second["concurrency"], None)]


def _post(person: Person, url: str, given: dict[str, str]) -> int:
    try:
        return signed_in(person).post(url, given).status_code
    finally:
        connections.close_all()


def test_another_organisations_limits_are_not_seen(tenant: Tenant, admin: Person) -> None:
    other = make_tenant()
    signed_in(make_person(other, Role.ADMIN)).post(
        f"/t/{other.slug}/limits/set/", {"name": "secret-model", "concurrency": "1"}
    )
    assert "secret-model" not in signed_in(admin).get(f"/t/{tenant.slug}/limits/").content.decode()
    assert signed_in(admin).get(f"/t/{other.slug}/limits/").status_code == 404


def test_the_command_sets_a_shared_limit_and_shows_all(tenant: Tenant, admin: Person) -> None:
    out = StringIO()
    call_command("limits", "model-a", "--requests-per-minute", "90", stdout=out)
    call_command("limits", "model-a", "--requests-per-minute", "90", stdout=out)
    call_command(
        "limits", "model-a", "--tenant", tenant.slug, "--as", admin.username, "--concurrency", "2", stdout=out
    )
    assert SharedLimit.objects.get().requests_per_minute == 90
    assert out.getvalue() == "Set.\nNothing changed.\nSet.\n"
    shown = StringIO()
    call_command("limits", "--tenant", tenant.slug, stdout=shown)
    assert "model-a: 2 at once; 0 running, 0 waiting" in shown.getvalue()
    assert "model-a (whole installation): 90 requests a minute" in shown.getvalue()
    assert "90" in signed_in(admin).get(f"/t/{tenant.slug}/limits/").content.decode()
    call_command("limits", "model-a", "--drop", stdout=out)
    assert not SharedLimit.objects.exists()


def test_the_command_refuses_with_a_sentence(tenant: Tenant) -> None:
    submitter = make_person(tenant, Role.SUBMITTER)
    with pytest.raises(CommandError, match="There is no organisation nowhere"):
        call_command("limits", "a", "--tenant", "nowhere", "--concurrency", "1")
    with pytest.raises(CommandError, match="Say with --as which admin"):
        call_command("limits", "a", "--tenant", tenant.slug, "--concurrency", "1")
    with pytest.raises(CommandError, match="Say at least one of"):
        call_command("limits", "a")
    with pytest.raises(CommandError, match="is an amount"):
        call_command("limits", "a", "--cost-per-day", "much")
    with pytest.raises(CommandError):
        call_command("limits", "a", "--tenant", tenant.slug, "--as", submitter.username, "--concurrency", "1")
    assert stored(tenant) == []
