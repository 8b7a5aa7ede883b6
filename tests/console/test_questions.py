"""Questions in the console: who sees what, the form that is made from the type, and two who answer at once."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import reading
from console.links import link
from tests.console.support import HOSTILE, as_person
from tests.support import eventually, install, make_person, make_tenant
from workflows.actions.answer import answer_question
from workflows.actions.cancel import cancel_job
from workflows.actions.submit import submit_job
from workflows.engine.connections import connect
from workflows.engine.engine import Engine
from workflows.models import Expectation, WorkItem

pytestmark = pytest.mark.django_db(transaction=True)
FILLED = {"way": "by lorry", "parcels": "2", "note": "Ring twice.", "box.width": "30"}
GIVEN = {"way": "by hand", "parcels": 1, "box": {"width": 3}}


@pytest.fixture(autouse=True)
def installed(_installed: None, settings: Any) -> None:
    install(settings, "tests.console.asking")


@pytest.fixture
def ask(tenant: Tenant) -> Iterator[Callable[..., Expectation]]:
    """Starts a job whose first step asks, and waits until it does: `ask(role="manager")`."""
    submitter = make_person(tenant, Role.SUBMITTER)
    engine = Engine(slots=2, lease_seconds=20)
    engine.start_threads()

    def submit(**order: Any) -> Expectation:
        made = submit_job(
            tenant_id=tenant.pk, workflow="test-asking", value=order, submission_key=str(timezone.now().timestamp()),
            person_id=submitter.pk, source="console", now=timezone.now(),
        )  # fmt: skip
        return eventually(lambda: waiting(tenant, made.job_id), what="a question")

    yield submit
    engine.request_stop()
    engine.join()


def waiting(tenant: Tenant, job_id: int) -> Expectation | None:
    with reading(tenant.pk):
        return Expectation.objects.filter(job_id=job_id, begun_at__isnull=False).order_by("-pk").first()


def again(tenant: Tenant, question: Expectation) -> Expectation:
    with reading(tenant.pk):
        return Expectation.objects.get(pk=question.pk)


def page(client: Client, name: str, slug: str, *args: Any, query: str = "") -> str:
    response = client.get(link(name, slug, *args) + query)
    assert response.status_code == 200, response.content.decode()[-2000:]
    return html.unescape(response.content.decode())


def post(client: Client, tenant: Tenant, question: Expectation, **fields: str) -> Any:
    return client.post(link("question", tenant.slug, question.pk), {**FILLED, **fields})


def test_an_answer_given_in_the_form_is_on_the_pages_and_the_job_goes_on(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask()
    client = as_person(operator)
    shown = page(client, "question", tenant.slug, question.pk)
    assert "How does R-7 travel?" in shown
    assert "By hand up to 30 kg." in shown
    assert re.search(r'<option value="" selected>Choose…</option>', shown)

    response = post(client, tenant, question, fragile="on")

    assert response.headers["Location"] == link("job", tenant.slug, question.job_id)
    told = eventually(lambda: waiting(tenant, question.job_id), what="the next wait")
    assert told is not None
    for name, key in (("question", question.pk), ("job", question.job_id)):
        after = page(client, name, tenant.slug, key)
        for said in ("by lorry", "Ring twice.", '{"width": 30}', operator.username):
            assert said in after, (name, said)
    assert "Answer and go on" not in page(client, "question", tenant.slug, question.pk)


def test_wrong_fields_are_told_beside_them_and_nothing_is_recorded(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask()
    response = post(as_person(operator), tenant, question, way="", parcels="0", note="x" * 501)
    said = html.unescape(response.content.decode())
    assert response.status_code == 422
    assert "Your answer was not recorded." in said
    assert "3 fields need another look." in said
    for field in ("way", "parcels", "note"):
        assert f'id="id_{field}_error"' in said
    assert 'value="30"' in said
    assert again(tenant, question).settled_at is None


def test_the_second_of_two_is_told_who_answered_and_when(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask()
    first = make_person(tenant, Role.OPERATOR)
    answer_question(
        tenant_id=tenant.pk, expectation_id=question.pk, person_id=first.pk, value=GIVEN, now=timezone.now()
    )
    response = post(as_person(operator), tenant, question)
    said = html.unescape(response.content.decode())
    assert response.status_code == 409
    assert "Your answer was not recorded." in said
    assert f"{first.username} answered this question before you did; that answer stands." in said
    assert f"Answered by {first.username}" in said
    assert "by hand" in said


def test_a_second_press_is_no_second_answer(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask()
    client = as_person(operator)
    assert post(client, tenant, question).status_code == 302
    assert post(client, tenant, question).status_code == 302
    assert "You had answered this already." in page(client, "job", tenant.slug, question.job_id)


def test_who_may_not_answer_is_told_who_may(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask(role="manager")
    client = as_person(operator)
    shown = page(client, "question", tenant.slug, question.pk)
    assert "Only a manager of this organisation may do this." in shown
    assert "Answer and go on" not in shown
    assert post(client, tenant, question).status_code == 403
    assert again(tenant, question).settled_at is None


def test_a_question_of_a_cancelled_job_says_that_nobody_waits(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask()
    admin = make_person(tenant, Role.ADMIN)
    cancel_job(
        tenant_id=tenant.pk, job_id=question.job_id, person_id=admin.pk, reason="x", now=timezone.now()
    )
    client = as_person(operator)
    assert "Nobody answered" in page(client, "question", tenant.slug, question.pk)
    assert post(client, tenant, question).status_code == 409


def test_strangers_find_no_question(tenant: Tenant, ask: Callable[..., Expectation]) -> None:
    question = ask()
    outsider = as_person(make_person(make_tenant(), *Role))
    for name, args in (("questions", ()), ("question", (question.pk,))):
        assert outsider.get(link(name, tenant.slug, *args)).status_code == 404
    assert outsider.post(link("question", tenant.slug, question.pk), FILLED).status_code == 404
    member = as_person(make_person(tenant, Role.OPERATOR))
    assert member.get(link("question", tenant.slug, question.pk + 1)).status_code == 404


def test_the_list_has_what_one_may_answer_first_and_counts_it_in_the_navigation(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    later, sooner = ask(reference="R-1", hours=9), ask(reference="R-2", hours=2)
    ask(reference="R-3", role="manager")
    endless = ask(reference="R-4")
    client = as_person(operator)
    shown = page(client, "questions", tenant.slug)
    places = [shown.index(f"How does {r} travel?") for r in ("R-2", "R-1", "R-4")]
    assert places == sorted(places)
    assert "How does R-3" not in shown
    assert re.search(r"Questions <small>3<span", shown)
    everything = page(client, "questions", tenant.slug, query="?all=1")
    assert "How does R-3 travel?" in everything
    assert "any manager" in everything
    home = page(client, "home", tenant.slug)
    assert 'id="q-questions"' in home
    assert "How does R-2 travel?" in home
    assert {later.due_at is None, sooner.due_at is None, endless.due_at is None} == {True, False}


def test_a_long_list_goes_on_behind_its_end(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    first = ask()
    copies(tenant, first, 120)
    client, seen, query = as_person(operator), [], ""
    while True:
        shown = page(client, "questions", tenant.slug, query=query)
        seen += re.findall(r"Question (\d+)\?", shown)
        further = re.search(r'href="(\?after=\d+)" rel="next"', shown)
        if further is None:
            break
        query = further[1]
    assert len(seen) == len(set(seen)) == 120


def copies(tenant: Tenant, question: Expectation, count: int) -> None:
    """So many more questions like this one, each of an item of its own; every third without an end."""
    with connect("test") as engine:
        engine.execute(
            "WITH made AS (INSERT INTO workflows_workitem (tenant_id, job_id, stage_id, key, ordinal, lane_id, rank,"
            " state, attempts, attempts_limit, claim_no) SELECT tenant_id, job_id, stage_id, 'c' || n, n, lane_id, 0, 3,"
            " 0, 5, 0 FROM workflows_workitem, generate_series(1, %s) n WHERE id = %s RETURNING id, job_id, ordinal)"
            " INSERT INTO workflows_expectation (tenant_id, job_id, item_id, kind, key, question, role, schema, asked_at,"
            " due_at) SELECT %s, job_id, id, 'answer', '', 'Question ' || ordinal || '?', 'operator', '{}', now(),"
            " CASE WHEN ordinal %% 3 > 0 THEN now() + (ordinal / 5) * interval '1 h' END FROM made",
            [count, question.item_id, tenant.pk],
        )


def test_hostile_text_is_escaped_and_a_long_question_is_shown_whole(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question = ask(text=f"{HOSTILE} {'and more ' * 40}\nthe end\u202e")
    client = as_person(operator)
    for name, key in (
        ("question", (question.pk,)),
        ("questions", ()),
        ("job", (question.job_id,)),
        ("home", ()),
    ):
        shown = client.get(link(name, tenant.slug, *key)).content.decode()
        assert "<img" not in shown, name
        assert "&lt;img src=x" in shown, name
        assert "\u202e" not in shown, name
    assert "the end" in page(client, "question", tenant.slug, question.pk)


def test_pages_cost_the_same_for_one_and_for_three_questions(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question, client = ask(), as_person(operator)
    addresses = [
        link("questions", tenant.slug),
        link("job", tenant.slug, question.job_id),
        link("jobs", tenant.slug),
    ]

    def counted() -> list[int]:
        found = []
        for address in addresses:
            with CaptureQueriesContext(connection) as captured:
                assert client.get(address).status_code == 200
            found.append(len(captured))
        return found

    counted()
    one = counted()
    ask(reference="R-8")
    copies(tenant, question, 2)
    assert counted() == one


def test_the_job_says_what_it_waits_for(
    tenant: Tenant, operator: Person, ask: Callable[..., Expectation]
) -> None:
    question, client = ask(), as_person(operator)
    job = page(client, "job", tenant.slug, question.job_id)
    assert "Waits for an operator's answer: How does R-7 travel?" in job
    assert "question open" in job
    assert "waits for an operator's answer: How does R-7 travel?" in page(client, "jobs", tenant.slug)
    post(client, tenant, question)

    def told() -> bool:
        return "Waits for the event shipment R-7 until" in page(client, "job", tenant.slug, question.job_id)

    eventually(told, what="the next wait on the page")
    with reading(tenant.pk):
        assert WorkItem.objects.filter(job_id=question.job_id, stage__name="shipped", state=3).exists()
