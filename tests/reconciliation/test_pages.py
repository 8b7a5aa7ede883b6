"""The list and the case's page: who reads them, what they say, what they cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from access.roles import Role
from access.tenancy import acting
from reconciliation.actions.noting import add_evidence, comment
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.owning import take
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.asking import ASKS, BUTTONS, URL_OF
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind
from reconciliation.tabs import TABS
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import a_contract, a_keyed_contract
from tests.reconciliation.pages import HOSTILE, HTMX, address, as_person, html_of, request_of
from tests.reconciliation.test_opening import stuck
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt
from tests.support import make_person, make_tenant
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def keyed(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0))


def exhausted(desk: Desk) -> Case:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    return desk.happens(job, "retry.exhausted", item=item.pk)


def test_every_kind_has_one_tab_and_every_verb_a_button_and_an_address() -> None:
    assert sorted(k for tab in TABS for k in tab.kinds) == sorted(CaseKind)
    # Setting lines aside has its form on the page itself.
    assert set(BUTTONS) == set(URL_OF) == set(VerbName) - {VerbName.SET_ASIDE}


def test_every_role_reads_the_list_the_case_and_every_question(erp: FaultServer) -> None:
    desk = keyed(erp)
    job, case = desk.unknown()
    clients = [as_person(make_person(desk.world.tenant, role)) for role in Role]
    pages = [address(desk, "cases"), address(desk, "case", case.pk)]
    pages += [address(desk, ask.url_name, case.pk) for ask in ASKS]
    before = desk.snapshot(job)
    for url in pages:
        for number, client in enumerate(clients):
            headers = HTMX if number % 2 else {}
            assert client.get(url, headers=headers).status_code == 200, url
    assert desk.snapshot(job) == before


def test_an_outsider_finds_nothing(erp: FaultServer) -> None:
    desk = keyed(erp)
    job, case = desk.unknown()
    outsider = as_person(make_person(make_tenant(), *Role))
    before = desk.snapshot(job)
    names = ["case", "case-look-up", "case-take", *(ask.url_name for ask in ASKS)]
    for url in [address(desk, "cases"), *(address(desk, name, case.pk) for name in names)]:
        assert (
            outsider.get(url).status_code in (404, 405),
            outsider.post(url).status_code in (404, 405),
        ) == (
            True,
            True,
        )
    assert desk.snapshot(job) == before


def test_a_member_finds_no_case_of_another_tenant(erp: FaultServer, desk: Desk) -> None:
    theirs = keyed(erp)
    job, case = theirs.unknown()
    client = as_person(desk.anna)
    before = theirs.snapshot(job)
    for ask in ASKS:
        assert client.get(address(desk, ask.url_name, case.pk)).status_code == 404
        assert client.post(address(desk, ask.url_name, case.pk), {"version": 0}).status_code == 404
    assert client.get(address(desk, "case", case.pk)).status_code == 404
    assert theirs.snapshot(job) == before


@pytest.mark.parametrize("name", ["case-look-up", "case-take"])
def test_what_acts_at_once_is_only_posted(erp: FaultServer, name: str) -> None:
    desk = keyed(erp)
    _, case = desk.unknown()
    assert as_person(desk.anna).get(address(desk, name, case.pk)).status_code == 405


def test_an_empty_list_says_when_a_case_opens(desk: Desk) -> None:
    html = html_of(as_person(desk.anna).get(address(desk, "cases")))
    assert "Nothing to reconcile" in html
    assert "0 open cases" in html


def test_what_is_expected_stands_on_its_own_tab_and_in_no_count() -> None:
    """The receiver said 202: accepted, to be confirmed. Nobody has to act."""
    with FaultServer(answers(202)) as bank:
        contract = a_contract(timeouts=PATIENT, confirmation="later", confirmation_within=3600.0)
        desk = Desk.make(bank.url, contract)
        job = desk.sending.ready()
        desk.run(job, steps=1)
    assert desk.sending.operation(job).state == "SUBMITTED"
    client = as_person(desk.anna)
    html = html_of(client.get(address(desk, "cases") + "?kind=expected"))
    assert desk.sending.operation(job).label in html
    assert "Expected<small>1</small>" in html
    assert "All open<small>0</small>" in html
    assert "Nobody has to act" in html


def test_the_list_is_narrowed_by_kind_owner_and_due_time(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, doubt = desk.unknown()
    stopped = exhausted(desk)
    desk.act(take, stopped)
    with acting(desk.tenant_id):
        Case.objects.filter(pk=doubt.pk).update(due_at=now() - timedelta(hours=1))
    client, url = as_person(desk.anna), address(desk, "cases")

    def shown(query: str) -> list[bool]:
        html = html_of(client.get(url + query, headers=HTMX))
        return [doubt.label in html, stopped.label in html]

    assert shown("") == [True, True]
    assert shown("?kind=unknown") == [True, False]
    assert shown("?kind=exhausted") == [False, True]
    assert shown("?owner=me") == [False, True]
    assert shown("?due=late") == [True, False]
    assert shown("?kind=held") == [False, False]
    assert shown("?kind=<b>&after=nonsense") == [True, True]
    assert shown("?receiver=nobody") == [True, True]
    assert "There is no receiver “nobody” here." in html_of(client.get(url + "?receiver=nobody"))
    assert "No open case matches" in html_of(client.get(url + "?kind=held"))


def test_what_was_put_off_is_listed_on_request(desk: Desk) -> None:
    case = exhausted(desk)
    with acting(desk.tenant_id):
        Case.objects.filter(pk=case.pk).update(snoozed_until=now() + timedelta(hours=2))
    client = as_person(desk.anna)
    assert case.label not in html_of(client.get(address(desk, "cases")))
    assert case.label in html_of(client.get(address(desk, "cases") + "?snoozed=1"))


def test_pages_follow_each_other_by_keyset(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    made = [exhausted(desk) for _ in range(27)]
    client, url = as_person(desk.anna), address(desk, "cases")
    first = client.get(url)
    second = html_of(client.get(url + f"?after={first.context['after']}"))
    assert [c.label in html_of(first) for c in made].count(True) == 25
    assert [c.label in second for c in made].count(True) == 2
    assert "Most urgent" in second


def test_htmx_gets_the_list_alone_and_the_case_without_its_frame(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, case = desk.unknown()
    client = as_person(desk.anna)
    assert html_of(client.get(address(desk, "cases"), headers=HTMX)).strip().startswith('<div id="list"')
    live = html_of(client.get(address(desk, "case", case.pk), headers=HTMX)).strip()
    assert live.startswith('<div id="case-live" data-poll')
    question = html_of(client.get(address(desk, "case-receipt", case.pk), headers=HTMX)).strip()
    assert question.startswith('<dialog class="ask"')


def test_a_case_says_what_is_known_what_is_not_and_what_can_be_done(erp: FaultServer) -> None:
    desk = keyed(erp)
    job, case = desk.unknown(amount="4800.00", currency="EUR")
    html = html_of(as_person(desk.anna).get(address(desk, "case", case.pk)))
    for sentence in (
        "Did ERP update V-1?",
        "Outcome unknown",
        "4,800.00",
        "What we don’t know",
        "Whether the money has left the account",
        "What ERP promises",
        "Residual risk",
        "ERP offers no look-up.",
        "may still arrive",
        'class="meter"',
        "Evidence, newest first",
        job.label,
    ):
        assert sentence in html, sentence
    order = [html.index(f"<h3>{v.title}</h3>") for v in desk.page(case).verbs]
    assert order == sorted(order)


def test_who_may_not_act_is_told_who_may(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, case = desk.unknown()
    html = html_of(as_person(desk.auditor).get(address(desk, "case", case.pk)))
    assert "Only an operator of this organisation may do this." in html
    for hidden in ("case-take", "case-assign", "case-snooze", "case-evidence", "case-comment"):
        assert f'"{address(desk, hidden, case.pk)}"' not in html


def test_a_resolved_case_says_how_by_whom_and_with_what_and_asks_no_more(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, case = desk.unknown()
    desk.act(confirm_with_receipt, case, receipt=receipt())
    html = html_of(as_person(desk.ben).get(address(desk, "case", case.pk)))
    for said in (
        "How it was resolved",
        "applied, by receipt",
        desk.anna.username,
        "Receipt R-77",
        "attests applied",
    ):
        assert said in html, said
    assert "data-poll" not in html
    assert "What you can do" not in html


def test_a_second_person_is_offered_the_request_and_the_asker_may_take_it_back(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    asked = request_of(desk, case)
    seen = {
        person: html_of(as_person(person).get(address(desk, "case", case.pk)))
        for person in (desk.anna, desk.ben, desk.admin, desk.auditor)
    }
    offers = {p: address(desk, "case-second", case.pk, asked) in html for p, html in seen.items()}
    assert offers == {desk.anna: False, desk.ben: True, desk.admin: True, desk.auditor: False}
    backs = {p: address(desk, "case-withdraw", case.pk, asked) in html for p, html in seen.items()}
    assert backs == {desk.anna: True, desk.ben: False, desk.admin: False, desk.auditor: False}
    assert "They wrote so." in seen[desk.auditor]
    assert "asks for a second person" in html_of(as_person(desk.ben).get(address(desk, "cases")))


def test_job_and_case_lead_to_each_other(erp: FaultServer) -> None:
    from django.urls import reverse

    desk = keyed(erp)
    job, case = desk.unknown()
    job_url = reverse("job", args=(desk.world.tenant.slug, job.pk))
    client = as_person(desk.anna)
    assert f'href="{address(desk, "case", case.pk)}"' in html_of(client.get(job_url))
    assert f'href="{job_url}"' in html_of(client.get(address(desk, "case", case.pk)))


def test_hostile_text_is_escaped_and_its_hidden_characters_shown(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, case = desk.unknown(title=HOSTILE)
    desk.act(take, case)
    plainly: dict[str, Any] = {
        "tenant_id": desk.tenant_id,
        "case_id": case.pk,
        "person_id": desk.anna.pk,
        "now": now(),
    }
    comment(**plainly, body=HOSTILE)
    add_evidence(**plainly, summary=HOSTILE, source=HOSTILE, taken_at=plainly["now"], detail=HOSTILE)
    client = as_person(desk.anna)
    for url in (
        address(desk, "cases"),
        address(desk, "case", case.pk),
        address(desk, "case-receipt", case.pk),
    ):
        html = html_of(client.get(url))
        assert "<img" not in html
        assert "&lt;img src=x" in html
        assert 'title="U+202E' in html


def queries_of(desk: Desk, url: str) -> int:
    client = as_person(desk.anna)
    with CaptureQueriesContext(connection) as captured:
        response = client.get(url)
    assert response.status_code == 200
    return len(captured)


def test_the_list_costs_the_same_at_one_and_at_three_rows(erp: FaultServer) -> None:
    desk = keyed(erp)
    erp.then(fin, fin)
    desk.unknown()
    first = queries_of(desk, address(desk, "cases"))
    desk.unknown("V-2")
    desk.unknown("V-3")
    assert (first, queries_of(desk, address(desk, "cases"))) == (19, 19)


def test_a_case_costs_the_same_with_one_and_with_three_pieces_of_evidence(erp: FaultServer) -> None:
    desk = keyed(erp)
    _, case = desk.unknown()
    first = queries_of(desk, address(desk, "case", case.pk))
    for _ in range(2):
        values: dict[str, Any] = {
            "tenant_id": desk.tenant_id,
            "case_id": case.pk,
            "person_id": desk.anna.pk,
            "now": now(),
        }
        add_evidence(**values, summary="Seen", source="mail", taken_at=values["now"])
        comment(**values, body="Said")
    assert first == queries_of(desk, address(desk, "case", case.pk))
