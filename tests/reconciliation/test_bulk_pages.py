"""The pages of bulks: choosing, looking, confirming once, watching, stopping; and workers that do it."""

from __future__ import annotations

from typing import Any

import pytest
from django.http import HttpResponse
from django.urls import reverse
from django.utils import timezone

from access.models import Person
from access.roles import Role
from access.tenancy import reading
from reconciliation.actions.bulk import stop_bulk
from reconciliation.models import Bulk
from tests.console.support import HOSTILE
from tests.reconciliation.floor import Floor
from tests.reconciliation.pages import HTMX, as_person, html_of
from tests.support import eventually, install, make_person, make_tenant
from workflows.engine.engine import Engine
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def letters(settings: Any, _own_workflow: None) -> None:
    install(settings, "tests.workflows.mending")


@pytest.fixture
def floor(transactional_db: None) -> Floor:
    return Floor.make()


def url(floor: Floor, name: str, *args: Any) -> str:
    return reverse(name, args=(floor.tenant.slug, *args))


def choose(floor: Floor, person: Person, **given: str) -> HttpResponse:
    answer: HttpResponse = as_person(person).post(url(floor, "bulks"), given)  # type: ignore[assignment]
    return answer


def the_bulk(floor: Floor) -> Bulk:
    with reading(floor.tenant.pk):
        return Bulk.objects.get()


def test_states_are_chosen_and_told_in_words(floor: Floor) -> None:
    floor.stopped("TimeoutError")
    client = as_person(floor.operator)
    asked = html_of(client.get(url(floor, "bulks") + "?verb=grant"))
    assert '<option value="REFUSED">Stopped</option>' in asked
    assert '<option value="READY_TO_COMMIT">Approved, not sent</option>' in asked
    bulk_id = floor.plan("grant", state="REFUSED")
    assert "<dt>State</dt><dd>Stopped</dd>" in html_of(client.get(url(floor, "bulk", bulk_id)))


def test_an_operator_chooses_looks_and_confirms_once(floor: Floor) -> None:
    job_id, items = floor.stopped("TimeoutError", "ValueError")
    client = as_person(floor.operator)
    asked = html_of(client.get(url(floor, "bulks") + "?verb=grant&step=read"))
    assert 'value="grant"' in asked
    assert 'value="read"' in asked
    assert "Cancel jobs" not in asked
    chosen = choose(floor, floor.operator, verb="grant", error="TimeoutError")
    page = url(floor, "bulk", the_bulk(floor).pk)
    assert (chosen.status_code, chosen["Location"]) == (302, page)
    html = html_of(client.get(page))
    assert "Try stopped items again: 1" in html
    assert "<dt>Error</dt><dd>TimeoutError</dd>" in html
    assert "<dt>Test letters, read</dt><dd>1</dd>" in html
    assert "data-poll" not in html
    confirm = url(floor, "bulk-confirm", the_bulk(floor).pk)
    assert client.post(confirm, {"attempts": "3", "reason": ""}).status_code == 422
    assert the_bulk(floor).state == "planned"
    assert client.post(confirm, {"attempts": "3", "reason": "they are back"}).status_code == 302
    again = client.post(confirm, {"attempts": "3", "reason": "they are back"})
    assert again.status_code == 409
    assert "It is not done twice." in html_of(again)
    running = client.get(page)
    assert "data-poll" in html_of(running)
    floor.work(the_bulk(floor).pk)
    live = client.get(page, headers=HTMX)
    assert live.status_code == 286
    assert "finished" in html_of(live)
    assert floor.item(items[0]).state_name is ItemState.READY
    assert f"JOB-{job_id}" in html_of(live)


def test_what_was_not_done_is_listed_with_why(floor: Floor) -> None:
    _, items = floor.stopped("ValueError", "ValueError")
    bulk_id = floor.plan("grant")
    floor.confirm(bulk_id)
    stop_bulk(tenant_id=floor.tenant.pk, bulk_id=bulk_id, person_id=floor.operator.pk, now=timezone.now())
    html = html_of(as_person(floor.operator).get(url(floor, "bulk", bulk_id) + "?show=left"))
    assert html.count(f"{floor.operator.username} stopped it.") == 2
    assert "<small>2</small>" in html
    empty = html_of(as_person(floor.operator).get(url(floor, "bulk", bulk_id) + "?show=done"))
    assert "None." in empty
    assert floor.item(items[0]).state_name is ItemState.REFUSED


def test_a_bulk_is_stopped_from_its_page(floor: Floor) -> None:
    floor.stopped("ValueError")
    bulk_id = floor.plan("grant")
    floor.confirm(bulk_id)
    client = as_person(floor.operator)
    assert "Stop it here" in html_of(client.get(url(floor, "bulk", bulk_id)))
    answer = client.post(url(floor, "bulk-stop", bulk_id), follow=True)
    assert "Stopped. 1 items are left as they were" in html_of(answer)
    assert client.post(url(floor, "bulk-stop", bulk_id)).status_code == 409


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "Say what is to be done."),
        ({"verb": "cancel"}, "Select a valid choice"),
        ({"verb": "grant", "step": "none"}, "There are no such items now."),
        ({"verb": "grant", "since": "soon"}, "Enter a date and a time."),
        ({"verb": "redrive", "state": "REFUSED"}, "state is one of failed"),
        ({"verb": "grant", "job": HOSTILE}, "is no job"),
    ],
)
def test_what_cannot_be_chosen_is_said_and_nothing_is_frozen(
    floor: Floor, given: dict[str, str], words: str
) -> None:
    floor.stopped("ValueError")
    answer = choose(floor, floor.operator, **given)
    assert answer.status_code == 422
    assert words in html_of(answer)
    assert "<img" not in html_of(answer)
    with reading(floor.tenant.pk):
        assert not Bulk.objects.exists()


def test_who_may_not_is_told_and_a_stranger_finds_nothing(floor: Floor) -> None:
    floor.stopped("ValueError")
    bulk_id = floor.plan("grant")
    for role in (Role.SUBMITTER, Role.MANAGER, Role.AUDITOR):
        client = as_person(make_person(floor.tenant, role))
        assert client.get(url(floor, "bulks")).status_code == 403
        assert client.get(url(floor, "bulk", bulk_id)).status_code == 200
        assert client.post(url(floor, "bulk-confirm", bulk_id)).status_code == 403
    admin = as_person(floor.admin)
    assert "Only an operator" in html_of(admin.get(url(floor, "bulk", bulk_id)))
    refused = admin.post(url(floor, "bulk-confirm", bulk_id), {"attempts": "3", "reason": "x"})
    assert refused.status_code == 403
    stranger = as_person(make_person(make_tenant(), *Role))
    for name in ("bulk", "bulk-confirm", "bulk-stop"):
        assert stranger.post(url(floor, name, bulk_id)).status_code in (404, 405)
    assert the_bulk(floor).state == "planned"


def test_a_long_list_of_entries_goes_on_and_costs_the_same(floor: Floor) -> None:
    floor.stopped(*["ValueError"] * 60)
    bulk_id = floor.plan("grant")
    client = as_person(floor.operator)
    first = html_of(client.get(url(floor, "bulk", bulk_id)))
    assert first.count("data-row") == 50
    after = floor.entries(bulk_id)[49].pk
    assert f"after={after}" in first
    assert html_of(client.get(url(floor, "bulk", bulk_id) + f"?after={after}")).count("data-row") == 10


def test_the_workers_do_a_confirmed_bulk_by_themselves(floor: Floor) -> None:
    """Found by the engine's sweep, done by its advancer: the items then run and stop again for good."""
    _, items = floor.stopped("ValueError", "ValueError")
    bulk_id = floor.plan("skip")
    floor.confirm(bulk_id)
    engine = Engine(slots=2, lease_seconds=20)
    engine.start_threads()
    try:
        eventually(lambda: floor.bulk(bulk_id).state == "finished", seconds=30, what="the bulk's end")
    finally:
        engine.request_stop()
        engine.join()
    assert floor.results(bulk_id) == [(i.pk, "done") for i in items]
