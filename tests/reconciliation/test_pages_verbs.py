"""Every verb's form, once, with its real action."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from access.models import Person
from access.tenancy import acting
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.kinds import VerbName
from reconciliation.models import Case
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, a_contract, a_keyed_contract, a_lookup_contract, as_json
from tests.reconciliation.pages import (
    HTMX,
    a_receipt,
    a_statement,
    address,
    as_person,
    html_of,
    post,
    request_of,
)
from tests.reconciliation.test_opening import stuck
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt
from workflows.models import Job
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))
OTHER = answers(200, as_json({**RECEIPT, "fields": {"limit": "1.00"}}))


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def neither(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_contract(timeouts=PATIENT))


def exhausted(desk: Desk) -> tuple[Job, Case]:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    return job, desk.happens(job, "retry.exhausted", item=item.pk)


def went_to_the_case(desk: Desk, response: Any, case: Case) -> bool:
    return (response.status_code, response.headers.get("Location")) == (302, address(desk, "case", case.pk))


def asked_for_second(desk: Desk) -> Case:
    """A case in which Anna has asked for a second person."""
    _, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    return desk.fresh(case)


# --- each verb once ---------------------------------------------------------------------------------------------


def test_a_receipt_confirms(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    response = post(desk, desk.anna, "case-receipt", case, **a_receipt())
    assert went_to_the_case(desk, response, case)
    assert (desk.fresh(case).resolution, desk.sending.job_state(job)) == ("applied, by receipt", "CONFIRMED")


def test_a_receipt_with_an_amount_is_compared_with_the_signed_one(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown(amount="4800.00", currency="EUR")
    wrong = post(desk, desk.anna, "case-receipt", case, **a_receipt(amount="4801", currency="EUR"))
    assert (wrong.status_code, desk.fresh(case).version) == (422, case.version)
    assert "not the one that was approved" in html_of(wrong)
    assert 'value="4801"' in html_of(wrong)
    assert "4,800.00" not in html_of(wrong)
    assert went_to_the_case(
        desk, post(desk, desk.anna, "case-receipt", case, **a_receipt(amount="4800", currency="eur")), case
    )
    assert desk.sending.job_state(job) == "CONFIRMED"


def test_not_applied_is_asked_for_and_seconded_by_another(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    assert went_to_the_case(desk, post(desk, desk.anna, "case-not-applied", case, **a_statement()), case)
    assert desk.fresh(case).resolved_at is None
    case = desk.fresh(case)
    question = html_of(
        as_person(desk.admin).get(address(desk, "case-second", case.pk, request_of(desk, case)))
    )
    assert "It never arrived." in question
    assert went_to_the_case(desk, post(desk, desk.admin, "case-second", case, request_of(desk, case)), case)
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by, closed.second_person) == (
        "not applied",
        desk.anna,
        desk.admin,
    )
    assert desk.sending.job_state(job) == "FAILED"


def test_nobody_seconds_what_they_asked_for(erp: FaultServer) -> None:
    desk = neither(erp)
    case = asked_for_second(desk)
    before = desk.snapshot(desk.sending.fresh(Job(pk=case.job_id)))
    response = post(desk, desk.anna, "case-second", case, request_of(desk, case))
    assert response.status_code == 403
    assert "somebody else has to second it" in html_of(response)
    assert desk.snapshot(desk.sending.fresh(Job(pk=case.job_id))) == before


def test_a_request_is_declined_with_a_reason_and_not_without(erp: FaultServer) -> None:
    desk = neither(erp)
    case = asked_for_second(desk)
    asked = request_of(desk, case)
    assert post(desk, desk.ben, "case-decline", case, asked, reason=" ").status_code == 422
    assert went_to_the_case(
        desk, post(desk, desk.ben, "case-decline", case, asked, reason="Another vendor."), case
    )
    assert [r.outcome for r in desk.requests(case)] == ["declined"]
    late = post(desk, desk.admin, "case-second", case, asked)
    assert late.status_code == 409
    assert desk.ben.username in html_of(late)


def test_a_request_is_taken_back(erp: FaultServer) -> None:
    desk = neither(erp)
    case = asked_for_second(desk)
    assert went_to_the_case(desk, post(desk, desk.anna, "case-withdraw", case, request_of(desk, case)), case)
    assert [r.outcome for r in desk.requests(case)] == ["withdrawn"]


def test_a_request_of_another_case_is_not_found(erp: FaultServer) -> None:
    erp.then(fin)
    desk = neither(erp)
    case = asked_for_second(desk)
    _, other = desk.unknown("V-2")
    response = post(desk, desk.ben, "case-second", other, request_of(desk, case))
    assert (response.status_code, [r.outcome for r in desk.requests(case)]) == (404, [""])


def test_the_same_key_is_sent_again(erp: FaultServer) -> None:
    erp.then(OK)
    desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0))
    job, case = desk.unknown()
    early = post(desk, desk.anna, "case-resubmit", case, reason="now")
    assert (early.status_code, "may still arrive" in html_of(early)) == (409, True)
    case = desk.once_allowed(case, VerbName.RESUBMIT)
    assert went_to_the_case(desk, post(desk, desk.anna, "case-resubmit", case, reason="Incident over."), case)
    assert (desk.fresh(case).resolution, desk.sending.job_state(job)) == ("sent again, same key", "SUBMITTED")


def test_a_difference_is_accepted_by_two() -> None:
    with FaultServer(OTHER) as erp:
        desk = neither(erp)
        job, case = desk.unknown()
    assert went_to_the_case(
        desk,
        post(
            desk,
            desk.anna,
            "case-accept",
            case,
            reason="Agreed by telephone.",
            difference=desk.page(case).difference,
        ),
        case,
    )
    case = desk.fresh(case)
    assert went_to_the_case(desk, post(desk, desk.ben, "case-second", case, request_of(desk, case)), case)
    assert (desk.fresh(case).resolution, desk.sending.job_state(job)) == ("difference accepted", "CONFIRMED")


@pytest.mark.parametrize("attempts", ["2", "0", "21", ""])
def test_a_step_is_tried_again_1_to_20_times(desk: Desk, attempts: str) -> None:
    job, case = exhausted(desk)
    response = post(desk, desk.anna, "case-retry", case, attempts=attempts, reason="The provider is back.")
    good = attempts == "2"
    assert response.status_code == (302 if good else 422)
    assert desk.item(job).state_name == (ItemState.READY if good else ItemState.EXHAUSTED)
    assert good or "The provider is back." in html_of(response)


def test_a_job_is_given_up(desk: Desk) -> None:
    job, case = exhausted(desk)
    assert went_to_the_case(desk, post(desk, desk.anna, "case-give-up", case, reason="Withdrawn."), case)
    assert (desk.fresh(case).resolution, desk.sending.job_state(job)) == ("given up", "FAILED")


def test_it_is_proposed_again_by_its_submitter(desk: Desk) -> None:
    from tests.reconciliation.test_steps import _back_to_validated

    desk.world.policy(waives_approval=False)
    job = desk.world.job()
    desk.freeze(job)
    _back_to_validated(desk, job)
    case = desk.happens(job, "proposal.expired", why="why")
    assert post(desk, desk.world.manager, "case-repropose", case).status_code == 403
    assert went_to_the_case(desk, post(desk, desk.world.submitter, "case-repropose", case), case)
    assert desk.sending.job_state(job) == "AWAITING_APPROVAL"


def test_a_hold_is_lifted(desk: Desk) -> None:
    job = desk.world.job()
    with acting(desk.tenant_id):
        Job.objects.filter(pk=job.pk).update(held_at=now(), held_by="worker", hold_reason="gone")
    case = desk.happens(job, "revision.missing", why="gone")
    assert went_to_the_case(desk, post(desk, desk.anna, "case-release", case), case)
    assert (desk.fresh(case).resolution, desk.sending.fresh(job).held_at) == ("released", None)


def test_what_was_blocked_goes_on() -> None:
    with FaultServer(answers(401), OK) as erp:
        desk = neither(erp)
        _, case = desk.unknown()
        assert went_to_the_case(
            desk, post(desk, desk.anna, "case-go-on", case, reason="Token renewed."), case
        )
    assert desk.fresh(case).resolution == "went on"


def test_a_partly_applied_job_stops_here() -> None:
    with FaultServer(OK, answers(422)) as erp:
        desk = neither(erp)
        job, case = desk.unknown("V-1", "V-2", "V-3")
        page = html_of(as_person(desk.anna).get(address(desk, "case", case.pk)))
        assert "Partly applied" in page
        assert went_to_the_case(
            desk, post(desk, desk.anna, "case-stop", case, reason="V-1 stands alone."), case
        )
    assert (desk.fresh(case).resolution, desk.sending.job_state(job)) == ("stopped here", "FAILED")


def test_an_outcome_is_recorded_with_what_shows_it(desk: Desk) -> None:
    job = desk.sending.ready()
    case = desk.happens(
        job, "operation.key_mismatch", operation_id=desk.sending.operation(job).pk, why="other content"
    )
    given = {"outcome": "the receiver was mistaken", "evidence": "They said so.", "source": "ticket 4711"}
    assert post(desk, desk.anna, "case-outcome", case, **{**given, "outcome": "fine"}).status_code == 422
    assert post(desk, desk.anna, "case-outcome", case, **{**given, "source": ""}).status_code == 422
    assert went_to_the_case(desk, post(desk, desk.anna, "case-outcome", case, **given), case)
    assert desk.fresh(case).resolution == "the receiver was mistaken"


def test_a_look_up_adds_evidence_to_the_page_that_asked() -> None:
    with FaultServer(fin, *[answers(404, as_json({}))] * 4) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(proves_after=None, timeouts=PATIENT))
        _, case = desk.unknown()
        page = html_of(as_person(desk.anna).get(address(desk, "case", case.pk)))
        assert "Asking…" in page
        before = len(desk.page(case).evidence)
        plain = post(desk, desk.anna, "case-look-up", case)
        assert went_to_the_case(desk, plain, case)
        live = as_person(desk.anna).post(
            address(desk, "case-look-up", case.pk), {"version": case.version}, headers=HTMX
        )
    assert len(desk.page(case).evidence) == before + 2
    shown = next(e for e in desk.page(case).evidence if e.what.startswith("Lookup"))
    assert '"method": "GET"' in shown.detail
    assert f"Answered 404 (SHA-256 of the body {hashlib.sha256(b'{}').hexdigest()}):" in shown.detail
    html = html_of(live)
    assert html.strip().startswith('<div id="case-live" data-poll')
    assert f'hx-get="{address(desk, "case", case.pk)}"' in html
    assert "data-focus" in html
    assert "That settles nothing yet." in html


# --- whose it is, and when ----------------------------------------------------------------------------------------


def test_a_case_is_taken_handed_over_and_given_back(desk: Desk) -> None:
    _, case = exhausted(desk)
    owners: list[Person | None] = []
    for person, name, given in (
        (desk.anna, "case-take", {}),
        (desk.anna, "case-assign", {"assignee": desk.ben.pk}),
        (desk.admin, "case-assign", {"assignee": ""}),
    ):
        case = desk.fresh(case)
        assert went_to_the_case(desk, post(desk, person, name, case, **given), case)
        owners.append(desk.fresh(case).assignee)
    assert owners == [desk.anna, desk.ben, None]
    wrong = post(desk, desk.anna, "case-assign", desk.fresh(case), assignee=desk.auditor.pk)
    assert (wrong.status_code, desk.fresh(case).assignee) == (422, None)


def test_of_two_who_take_it_the_second_is_told_who_has_it(desk: Desk) -> None:
    _, case = exhausted(desk)
    post(desk, desk.anna, "case-take", case)
    late = post(desk, desk.ben, "case-take", case)
    assert (late.status_code, desk.anna.username in html_of(late)) == (409, True)
    assert desk.fresh(case).assignee == desk.anna


def test_a_case_is_put_off_with_a_reason(desk: Desk) -> None:
    _, case = exhausted(desk)
    until = (now() + timedelta(days=2)).strftime("%Y-%m-%dT%H:%M")
    missing = post(desk, desk.anna, "case-snooze", case, until=until, reason="")
    assert (missing.status_code, until in html_of(missing)) == (422, True)
    far = post(desk, desk.anna, "case-snooze", case, until="2199-01-01T00:00", reason="their incident")
    assert (far.status_code, "their incident" in html_of(far)) == (422, True)
    assert "within the next 14 days" in html_of(far)
    assert went_to_the_case(desk, post(desk, desk.anna, "case-snooze", case, until=until, reason="x"), case)
    assert desk.fresh(case).snoozed_until is not None


def test_comments_and_evidence_are_kept_even_after_the_end(erp: FaultServer) -> None:
    desk = neither(erp)
    _, case = desk.unknown()
    desk.act(confirm_with_receipt, case, receipt=receipt())
    assert post(desk, desk.anna, "case-comment", case, body=" ").status_code == 422
    assert post(desk, desk.auditor, "case-comment", case, body="I saw").status_code == 403
    assert went_to_the_case(desk, post(desk, desk.world.manager, "case-comment", case, body="Good."), case)
    seen = {
        "summary": "Line 5",
        "source": "bank",
        "taken_at": now().strftime("%Y-%m-%dT%H:%M:%S"),
        "detail": "",
    }
    assert (
        post(desk, desk.anna, "case-evidence", case, **{**seen, "taken_at": "2199-01-01T00:00"}).status_code
        == 422
    )
    assert went_to_the_case(desk, post(desk, desk.anna, "case-evidence", case, **seen), case)
    assert [(e.kind, e.summary) for e in desk.evidence(case)][-2:] == [
        ("comment", "Good."),
        ("statement", "Line 5"),
    ]
