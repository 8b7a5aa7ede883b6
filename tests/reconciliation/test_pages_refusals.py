"""Forms that are refused: by whom, too late, or incomplete; with what was typed kept, and nothing changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from reconciliation.actions.owning import take
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.kinds import VerbName
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract
from tests.reconciliation.pages import (
    HOSTILE,
    HTMX,
    a_receipt,
    a_statement,
    address,
    as_person,
    html_of,
    post,
)
from tests.reconciliation.world import PATIENT, Desk, receipt

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


def neither(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_contract(timeouts=PATIENT))


VERBS: list[tuple[str, dict[str, Any]]] = [
    ("case-receipt", a_receipt()),
    ("case-not-applied", a_statement()),
    ("case-resubmit", {"reason": "x"}),
    ("case-look-up", {}),
]


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_only_an_operator_works_on_a_doubt(erp: FaultServer, headers: dict[str, str]) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    before = desk.snapshot(job)
    for person in (desk.admin, desk.auditor, desk.world.manager, desk.world.submitter):
        for name, given in VERBS:
            response = as_person(person).post(
                address(desk, name, case.pk), {"version": case.version, **given}, headers=headers
            )
            assert (response.status_code, "Only an operator" in html_of(response)) == (403, True), name
    assert desk.snapshot(job) == before


def test_who_comes_too_late_is_told_who_resolved_it_and_keeps_what_was_typed(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_with_receipt, case, receipt=receipt())
    before = desk.snapshot(job)
    typed = a_statement(evidence=f"It never arrived. {HOSTILE}")
    for headers in ({}, HTMX):
        response = as_person(desk.ben).post(
            address(desk, "case-not-applied", case.pk), {"version": case.version, **typed}, headers=headers
        )
        html = html_of(response)
        assert response.status_code == 409
        for said in (
            desk.anna.username,
            "applied, by receipt",
            "Nothing was recorded",
            "It never arrived.",
            "is resolved",
        ):
            assert said in html, said
        assert "<img" not in html
        assert html.strip().startswith("<dialog") is bool(headers)
        assert 'type="submit">Ask for' not in html
    assert desk.snapshot(job) == before


def test_a_case_that_changed_meanwhile_is_shown_and_the_form_can_be_sent_again(erp: FaultServer) -> None:
    desk = neither(erp)
    _, case = desk.unknown()
    desk.act(take, case, desk.ben)
    late = post(desk, desk.anna, "case-receipt", case, **a_receipt(note="from the clerk"))
    html = html_of(late)
    assert (late.status_code, desk.ben.username in html, "has changed" in html) == (409, True, True)
    assert "from the clerk" in html
    assert f'name="version" value="{case.version + 1}"' in html
    assert desk.fresh(case).resolved_at is None


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("case-receipt", a_receipt(receipt_id="")),
        ("case-receipt", a_receipt(obtained_at="yesterday")),
        ("case-receipt", a_receipt(record="V-2")),
        ("case-not-applied", a_statement(source="")),
        ("case-not-applied", a_statement(evidence="  ")),
        ("case-not-applied", a_statement(then="")),
        ("case-resubmit", {"reason": ""}),
        ("case-resubmit", {"reason": "a\0b"}),
        ("case-receipt", a_receipt(version="")),
    ],
)
@pytest.mark.parametrize("headers", [{}, HTMX])
def test_what_is_missing_is_asked_for_and_the_rest_is_kept(
    erp: FaultServer, name: str, given: dict[str, Any], headers: dict[str, str]
) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    before = desk.snapshot(job)
    values = {"version": case.version, **given}
    response = as_person(desk.anna).post(address(desk, name, case.pk), values, headers=headers)
    html = html_of(response)
    assert (response.status_code, "Nothing was recorded and nothing was sent." in html) == (422, True)
    assert html.strip().startswith("<dialog") is bool(headers)
    for value in (given.get("source"), given.get("receipt_id"), given.get("obtained_from")):
        assert not value or value in html
    assert desk.snapshot(job) == before


def test_a_look_up_as_proof_needs_no_source_and_proves_only_what_the_contract_says(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    before = desk.snapshot(job)
    response = post(desk, desk.anna, "case-not-applied", case, **a_statement(basis="look-up", source=""))
    assert (response.status_code, "proves nothing" in html_of(response)) == (409, True)
    assert desk.snapshot(job) == before


def test_htmx_is_sent_on_to_the_case_once_it_is_done(erp: FaultServer) -> None:
    desk = neither(erp)
    _, case = desk.unknown()
    response = as_person(desk.anna).post(
        address(desk, "case-receipt", case.pk), {"version": case.version, **a_receipt()}, headers=HTMX
    )
    assert (response.status_code, response.headers["HX-Redirect"]) == (200, address(desk, "case", case.pk))
    assert desk.fresh(case).resolution == "applied, by receipt"


def test_a_form_without_its_token_is_refused(erp: FaultServer) -> None:
    from django.test import Client

    desk = neither(erp)
    job, case = desk.unknown()
    client = Client(enforce_csrf_checks=True, headers={"host": "localhost"})
    client.force_login(desk.anna)
    before = desk.snapshot(job)
    assert (
        client.post(address(desk, "case-receipt", case.pk), {"version": 0, **a_receipt()}).status_code == 403
    )
    assert desk.snapshot(job) == before
