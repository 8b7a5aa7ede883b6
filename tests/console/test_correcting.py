"""Correcting a stopped item on its page: a form from the step's types, every wrong field named, nothing lost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.http import HttpResponse

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting, reading
from console.links import link
from tests.console.mending import at_the_third_step, letter, stop, versions
from tests.console.support import HOSTILE, as_person
from tests.support import install, make_person, make_tenant
from workflows.models import ItemInput, JournalEntry, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
WHY = {"attempts": "2", "reason": "the letter was torn"}


@pytest.fixture(autouse=True)
def letters(settings: Any, _installed: None) -> None:
    install(settings, "tests.workflows.mending")


def page_of(tenant: Tenant, item: WorkItem) -> str:
    return link("item-correct", tenant.slug, item.job_id, item.pk)


def post(person: Person, tenant: Tenant, item: WorkItem, **given: str) -> HttpResponse:
    values = {**WHY, "seen": str(item.claim_no), **given}
    answer: HttpResponse = as_person(person).post(page_of(tenant, item), values)  # type: ignore[assignment]
    return answer


def state_of(tenant: Tenant, item: WorkItem) -> ItemState:
    with reading(tenant.pk):
        return WorkItem.objects.get(pk=item.pk).state_name


def test_the_form_has_a_field_for_each_field_with_what_stands_there(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad & <b>old</b>"), "read")
    html = as_person(operator).get(page_of(tenant, item)).content.decode()
    assert 'name="v-text" value="bad &amp; &lt;b&gt;old&lt;/b&gt;"' in html
    assert 'name="v-weight" value="0.5"' in html
    assert "What it was given" in html
    assert "<b>old" not in html


def test_a_corrected_element_is_kept_beside_the_old_one_and_tried_again(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    answer = post(operator, tenant, item, **{"v-text": "good", "v-weight": "0.25"})
    assert (answer.status_code, answer["Location"]) == (302, link("item", tenant.slug, item.job_id, item.pk))
    assert versions(tenant, item) == ['{"text":"bad","weight":0.5}', '{"text":"good","weight":0.25}']
    assert state_of(tenant, item) is ItemState.READY
    html = as_person(operator).get(answer["Location"]).content.decode()
    assert f"{operator.username} corrected what it works on" in html
    assert "the letter was torn" in html
    assert "Version 1" in html


def test_every_wrong_field_is_named_and_what_was_typed_stays(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    answer = post(operator, tenant, item, **{"v-text": "", "v-weight": "heavy"})
    html = answer.content.decode()
    assert answer.status_code == 422
    assert "2 fields need another look" in html
    assert "is empty; fill it in" in html
    assert "has to be a number" in html
    assert 'value="heavy"' in html
    assert versions(tenant, item) == ['{"text":"bad","weight":0.5}']


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"v-text": "bad", "v-weight": "0.5"}, "Nothing was changed, so it would stop again"),
        ({"v-text": "good", "reason": ""}, "Say what was wrong with it"),
        ({"v-text": "good", "attempts": "21"}, "Say how often it is tried again, 1 to 20."),
        ({"as": "json", "v-whole": '{"text": "a", "text": "b"}'}, "text is given twice"),
        ({"as": "json", "v-whole": '{"text": ""}'}, "text: is empty; fill it in"),
        ({"as": "json", "v-whole": "{"}, "is not JSON"),
        ({"as": "json", "v-whole": '{"\\ud800": 1}'}, "half a character pair"),
        ({"as": "json", "v-whole": '{"\\ud800": 1, "\\ud800": 2}'}, "\\ud800 is given twice"),
        *(
            ({"as": "json", "v-whole": f'{{"text": {"[" * n}{"]" * n}}}'}, "nested")
            for n in (120, *range(500, 1000, 50))
        ),
    ],
)
def test_what_cannot_be_taken_is_said_and_changes_nothing(
    tenant: Tenant, submitter: Person, operator: Person, given: dict[str, str], words: str
) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    answer = post(operator, tenant, item, **given)
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert state_of(tenant, item) is ItemState.REFUSED
    assert len(versions(tenant, item)) == 1


def test_the_same_can_be_written_as_json(tenant: Tenant, submitter: Person, operator: Person) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    html = as_person(operator).get(page_of(tenant, item) + "?as=json").content.decode()
    assert "&quot;weight&quot;: 0.5" in html
    answer = post(operator, tenant, item, **{"as": "json", "v-whole": '{"text": "good"}'})
    assert answer.status_code == 302
    assert versions(tenant, item)[-1] == '{"text":"good","weight":0.5}'


def test_the_arguments_of_a_single_step_are_groups_and_only_what_changed_is_kept(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, at_the_third_step(tenant, submitter, "one", closing="broken"), "put-together")
    html = as_person(operator).get(page_of(tenant, item)).content.decode()
    assert "<legend>Letter</legend>" in html
    assert "<legend>Read</legend>" in html
    given = {
        "v-letter.lines": "one",
        "v-letter.closing": "kind regards",
        "v-read": '[\n  {\n    "text": "ONE"\n  }\n]',
    }
    answer = post(operator, tenant, item, **given)
    assert answer.status_code == 302, answer.content.decode()
    assert versions(tenant, item) == ['{"letter":{"closing":"kind regards","lines":["one"]}}']
    html = as_person(operator).get(answer["Location"]).content.decode()
    assert "the job’s input, <b>corrected below</b>" in html


def test_text_of_several_lines_and_strange_characters_comes_back_as_it_was(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    job_id = letter(tenant, submitter, "bad")
    with acting(tenant.pk):
        found = WorkItem.objects.get(job=job_id, stage__name="read")
        value = json.dumps({"text": "bad\r\nold\f ", "weight": 1})
        ItemInput.objects.create(tenant=tenant, item=found, version=2, value=value)
    item = stop(tenant, job_id, "read")
    # A browser sends line ends of its own.
    answer = post(operator, tenant, item, **{"v-text": "bad\r\nold\f ", "v-weight": "2.5"})
    assert answer.status_code == 302, answer.content.decode()
    assert json.loads(versions(tenant, item)[-1]) == {"text": "bad\r\nold\f ", "weight": 2.5}


def test_what_no_field_holds_is_written_as_json(tenant: Tenant, submitter: Person, operator: Person) -> None:
    job_id = letter(tenant, submitter, "bad")
    with acting(tenant.pk):
        found = WorkItem.objects.get(job=job_id, stage__name="read")
        ItemInput.objects.create(tenant=tenant, item=found, version=2, value='{"text":"bad","odd":1}')
    item = stop(tenant, job_id, "read")
    html = as_person(operator).get(page_of(tenant, item)).content.decode()
    assert 'name="v-whole"' in html
    assert "&quot;odd&quot;: 1" in html


def test_whoever_comes_second_is_told_and_nothing_is_kept(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    assert post(operator, tenant, item, **{"v-text": "good"}).status_code == 302
    late = post(make_person(tenant, Role.OPERATOR), tenant, item, **{"v-text": "other"})
    assert late.status_code == 409
    html = late.content.decode()
    assert "has not stopped" in html
    assert html.index("What you had written") < html.index("other") < html.index("the letter was torn")
    stop(tenant, item.job_id, "read")
    stale = post(operator, tenant, item, **{"v-text": "other", "seen": "7"})
    assert stale.status_code == 409
    assert "tried again since" in stale.content.decode()
    assert len(versions(tenant, item)) == 2


def test_only_an_operator_corrects_and_a_stranger_finds_nothing(tenant: Tenant, submitter: Person) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    for role in (Role.SUBMITTER, Role.MANAGER, Role.ADMIN, Role.AUDITOR):
        assert post(make_person(tenant, role), tenant, item, **{"v-text": "good"}).status_code == 403
    outsider = make_person(make_tenant(), *Role)
    assert post(outsider, tenant, item, **{"v-text": "good"}).status_code == 404
    assert versions(tenant, item) == ['{"text":"bad","weight":0.5}']


def test_a_job_of_another_tenant_has_no_such_item(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    other = make_tenant()
    theirs = stop(other, letter(other, make_person(other, Role.SUBMITTER), "bad"), "read")
    mine = stop(tenant, letter(tenant, submitter, "bad"), "read")
    for job_id, item_id in ((theirs.job_id, theirs.pk), (mine.job_id, theirs.pk)):
        for name in ("item", "item-correct"):
            url = link(name, tenant.slug, job_id, item_id)
            assert as_person(operator).get(url).status_code == 404


def test_hostile_text_is_escaped_on_the_form_and_beside_it(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, letter(tenant, submitter, HOSTILE), "read")
    for url in (page_of(tenant, item), page_of(tenant, item) + "?as=json"):
        html = as_person(operator).get(url).content.decode()
        assert "<img" not in html
        assert "&lt;img src=x" in html
    wrong = post(operator, tenant, item, **{"v-text": HOSTILE, "v-weight": HOSTILE})
    assert wrong.status_code == 422
    assert "<img" not in wrong.content.decode()


def test_a_correction_is_in_the_journal_with_digests_and_no_values(
    tenant: Tenant, submitter: Person, operator: Person
) -> None:
    item = stop(tenant, letter(tenant, submitter, "bad"), "read")
    post(operator, tenant, item, **{"v-text": "secret-value"})
    with reading(tenant.pk):
        entry = JournalEntry.objects.get(job_id=item.job_id, event="item.corrected")
    assert "secret-value" not in entry.evidence
    assert set(json.loads(entry.evidence)) >= {"before", "after", "reason", "version"}
