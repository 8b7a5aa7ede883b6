"""The pages of a step and of an item: what became of each, however many there are; and redriving a job."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import acting, reading
from console.links import link
from console.queries.keeping import Kept
from tests.console.mending import at_the_third_step, letter, stop
from tests.console.support import as_person
from tests.support import install
from workflows.actions.correct import correct_item
from workflows.actions.retry import fail_job
from workflows.actions.skip import skip_item
from workflows.models import Checkpoint, Job, Stage, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def letters(settings: Any, _installed: None) -> None:
    install(settings, "tests.workflows.mending")


def html_of(person: Person, url: str, status: int = 200) -> str:
    answer = as_person(person).get(url)
    assert answer.status_code == status
    return answer.content.decode()


def fate(tenant: Tenant, job_id: int, key: str, state: ItemState) -> WorkItem:
    """An item of the second step as it is once it came to that."""
    with acting(tenant.pk):
        found = WorkItem.objects.filter(job=job_id, stage__name="read", key=key)
        found.update(state=state.number, attempts=1, finished_at=timezone.now())
        return found.select_related("stage").get()


def six_fates(tenant: Tenant, submitter: Person, operator: Person) -> tuple[int, Stage]:
    """A job whose second step has an item of each fate: done, stopped, late, left out, corrected, open."""
    job_id = letter(tenant, submitter, "done", "stopped", "late", "out", "corrected", "open")
    fate(tenant, job_id, "1", ItemState.SUCCEEDED)
    stop(tenant, job_id, "read", "2")
    fate(tenant, job_id, "3", ItemState.SKIPPED)
    out, corrected = stop(tenant, job_id, "read", "4"), stop(tenant, job_id, "read", "5")
    asked = {"tenant_id": tenant.pk, "person_id": operator.pk, "now": timezone.now(), "reason": "not ours"}
    skip_item(item_id=out.pk, **asked)
    correct_item(item_id=corrected.pk, text='{"text": "right"}', attempts=1, **asked)
    return job_id, out.stage


@pytest.mark.parametrize(
    ("show", "keys"),
    [
        ("", "123456"),
        ("done", "1"),
        ("stopped", "2"),
        ("late", "3"),
        ("skipped", "4"),
        ("corrected", "5"),
        ("open", "56"),
        ("nonsense", "123456"),
    ],
)
def test_the_items_of_a_step_are_listed_by_what_became_of_them(
    tenant: Tenant, submitter: Person, operator: Person, show: str, keys: str
) -> None:
    job_id, stage = six_fates(tenant, submitter, operator)
    html = html_of(operator, link("stage", tenant.slug, job_id, stage.pk) + f"?show={show}")
    assert "".join(shown(html)) == keys


def shown(html: str) -> list[str]:
    """The keys of the items that a page lists."""
    return re.findall(r"data-row>Item (\d+)</a>", html)


def test_a_jobs_page_names_beside_a_step_what_became_of_some(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id, stage = six_fates(tenant, submitter, operator)
    html = html_of(operator, link("job", tenant.slug, job_id))
    url = link("stage", tenant.slug, job_id, stage.pk)
    for show in ("stopped", "late", "skipped", "corrected"):
        assert f'<a href="{url}?show={show}">1 {show}</a>' in html
    assert "1 of 6" in html


def test_an_item_says_who_left_it_out_and_when_it_came_too_late(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id, _ = six_fates(tenant, submitter, operator)
    with reading(tenant.pk):
        ids = dict(WorkItem.objects.filter(job=job_id, stage__name="read").values_list("key", "pk"))
    out = html_of(operator, link("item", tenant.slug, job_id, ids["4"]))
    late = html_of(operator, link("item", tenant.slug, job_id, ids["3"]))
    assert f"{operator.username} left it out" in out
    assert "the job went on without it" in late
    assert "left it out" not in late


def test_a_long_list_goes_on_from_the_last_item_of_a_page(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = letter(tenant, submitter, *(f"line {n}" for n in range(1, 121)))
    with reading(tenant.pk):
        stage = Stage.objects.get(job=job_id, name="read")
    seen: list[str] = []
    url = link("stage", tenant.slug, job_id, stage.pk)
    for after in ("", "?after=50", "?after=100"):
        html = html_of(operator, url + after)
        seen += shown(html)
        assert ('rel="next"' in html) == (after != "?after=100")
    assert seen == [str(n) for n in range(1, 121)]


def test_a_list_costs_the_same_at_one_and_at_fifty_items(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    counted = []
    for count in (1, 50):
        job_id = letter(tenant, submitter, *(f"line {n}" for n in range(count)))
        with reading(tenant.pk):
            stage = Stage.objects.get(job=job_id, name="read")
        with CaptureQueriesContext(connection) as captured:
            html_of(operator, link("stage", tenant.slug, job_id, stage.pk))
        counted.append(len(captured))
    assert counted == [32, 32]


def test_a_jobs_page_counts_items_without_looking_at_those_that_are_done(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    """The counts come from the partial index of what is not done, whatever the planner would do on a small table."""
    job_id = letter(tenant, submitter, "a", "b")
    with reading(tenant.pk), connection.cursor() as cursor:
        for other in (
            "seqscan",
            "bitmapscan",
            "sort",
            "incremental_sort",
            "hashagg",
        ):  # only this index has the order that is grouped by
            cursor.execute(f"SET LOCAL enable_{other} = off")
        with CaptureQueriesContext(connection) as captured:
            from console.queries.steps import counts_of

            counts_of(Job.objects.get(pk=job_id), list(Stage.objects.filter(job=job_id)))
        (counting,) = [q["sql"] for q in captured if "COUNT(*)" in q["sql"]]
        cursor.execute(f"EXPLAIN {counting}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Index Only Scan using item_not_done" in plan


def test_what_was_given_and_what_was_given_back_is_saved_to_the_byte(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = at_the_third_step(tenant, submitter, "ä")
    with reading(tenant.pk):
        item = WorkItem.objects.get(job=job_id, stage__name="read")
        kept = Checkpoint.objects.get(item=item)
    client = as_person(operator)
    given = client.get(link("item-input", tenant.slug, job_id, item.pk, 1))
    gave = client.get(link("item-output", tenant.slug, job_id, item.pk, 1))
    assert json.loads(given.content) == {"text": "ä", "weight": 0.5}
    assert hashlib.sha256(gave.content).hexdigest() == kept.digest
    for answer in (given, gave):
        assert answer["Content-Disposition"].startswith("attachment")
    for name, version in (("item-input", 2), ("item-output", 9)):
        assert client.get(link(name, tenant.slug, job_id, item.pk, version)).status_code == 404


def test_a_failed_job_is_redriven_from_its_page(tenant: Tenant, submitter: Person, operator: Person) -> None:
    job_id = letter(tenant, submitter, "bad")
    stop(tenant, job_id, "read")
    fail_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, reason="x", now=timezone.now())
    url = link("job-redrive", tenant.slug, job_id)
    assert url in html_of(operator, link("job", tenant.slug, job_id))
    assert url not in html_of(submitter, link("job", tenant.slug, job_id))
    client = as_person(operator)
    assert client.post(url, {"attempts": "3", "reason": ""}).status_code == 422
    assert as_person(submitter).post(url, {"attempts": "3", "reason": "x"}).status_code == 403
    answer = client.post(url, {"attempts": "3", "reason": "the scanner is repaired"}, follow=True)
    assert "Redriven: 1 item goes on." in answer.content.decode()
    again = client.post(url, {"attempts": "3", "reason": "again"})
    assert again.status_code == 409
    assert f"{operator.username} has redriven JOB-{job_id} already" in again.content.decode()
    with reading(tenant.pk):
        assert Job.objects.values_list("state", flat=True).get(pk=job_id) == "VALIDATED"


def test_a_job_that_cannot_be_redriven_says_why(tenant: Tenant, submitter: Person, operator: Person) -> None:
    job_id = letter(tenant, submitter, "bad")
    item = stop(tenant, job_id, "read")
    fail_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, reason="x", now=timezone.now())
    with acting(tenant.pk):
        WorkItem.objects.filter(pk=item.pk).update(state=ItemState.COMPENSATED.number)
    html = html_of(operator, link("job", tenant.slug, job_id))
    assert "was undone when it failed: submit it anew." in html
    assert link("job-redrive", tenant.slug, job_id) not in html


def test_a_figure_that_took_long_is_not_found_anew_at_once() -> None:
    asked: list[int] = []

    def slow() -> int:
        until = timezone.now().timestamp() + 0.02
        while timezone.now().timestamp() < until:
            pass
        asked.append(1)
        return len(asked)

    kept: Kept[int] = Kept(patience=1000)
    assert [kept.get("a", slow), kept.get("a", slow), kept.get("b", slow)] == [1, 1, 2]
    eager: Kept[int] = Kept(patience=0)
    assert [eager.get("a", slow), eager.get("a", slow)] == [3, 4]
