"""Truth that comes to light after a case was closed: what was recorded stays, and is asked about again by two people."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from access.roles import WORKER
from access.tenancy import acting, reading
from approvals.models import Reservation
from dispatch.classification import Outcome, Reading
from dispatch.locks import lock_job_and_operation
from dispatch.moving import move
from dispatch.proofs import keep_late_answer
from dispatch.states import OperationState
from reconciliation.actions.noting import TakenInTheFuture
from reconciliation.actions.outcomes import confirm_not_applied, resubmit_same_key
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.actions.reopening import reopen
from reconciliation.actions.seconding import SameVerbAsked, SecondIsTheAsker, decline, second
from reconciliation.actions.working import NotAllowedNow, StaleCase
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, a_contract, a_keyed_contract, as_json
from tests.reconciliation.pages import Upload, address, as_person, html_of, post
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


def neither(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_contract(timeouts=PATIENT))


def settled(desk: Desk) -> tuple[Job, Case]:
    """A job that two people recorded as not applied, and the resolved case."""
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    desk.answer(second, desk.fresh(case), desk.ben)
    return job, desk.fresh(case)


def asked(desk: Desk, case: Case, **changes: Any) -> Case:
    """The case in which Anna asks for the reopening."""
    given = {
        "evidence": "The bank shows it.",
        "source": "statement of 14 March",
        "taken_at": now(),
        **changes,
    }
    done = desk.act(reopen, case, **given)
    return desk.fresh(Case(pk=done.case_id))


def test_what_was_not_applied_after_all_is_asked_about_again_and_the_first_answer_stays(
    erp: FaultServer,
) -> None:
    desk = neither(erp)
    job, first = settled(desk)
    assert desk.sending.job_state(job) == "FAILED"
    speaks = asked(desk, first, paper=a_letter("statement.csv"))
    assert (speaks.kind, desk.sending.job_state(job)) == (CaseKind.CONTRADICTED, "FAILED")
    done = desk.answer(second, speaks, desk.ben)
    assert (done.resolution, done.job_state) == ("reopened", "NEEDS_RECONCILIATION")
    assert desk.sending.operation(job).state == "UNKNOWN"
    (again,) = desk.cases(job, open_only=True)
    assert (again.kind, again.pk != first.pk) == (CaseKind.UNKNOWN_OUTCOME, True)
    assert [(c.resolution, c.resolved_by, c.second_person) for c in desk.cases(job) if c.resolved_at] == [
        ("not applied", desk.anna, desk.ben),
        ("reopened", desk.anna, desk.ben),
    ]
    assert [e for e in desk.events(job) if "reopened" in e] == ["operation.reopened", "job.reopened"]
    assert len(erp.received) == 1
    # The evidence of the first answer proves nothing any more; new evidence ends it.
    done = desk.act(confirm_with_receipt, again, receipt=receipt())
    assert done.job_state == "CONFIRMED"


def test_a_receipt_that_was_for_something_else_is_no_proof_any_more(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    desk.act(confirm_with_receipt, case, receipt=receipt())
    speaks = asked(desk, desk.fresh(case), evidence="R-77 is the receipt of another vendor.")
    desk.answer(second, speaks, desk.admin)
    assert desk.sending.operation(job).state == "UNKNOWN"
    unproven = desk.sending.operation(job)
    with pytest.raises(IntegrityError, match="no observation that proves it"), acting(desk.tenant_id):
        move(unproven, OperationState.CONFIRMED, now())


def test_nothing_is_sent_by_itself_after_a_reopening_and_an_old_answer_settles_nothing() -> None:
    """Confirmed by its answer, doubted, sent again by a person and refused: unknown, for the first send is still in doubt."""
    with FaultServer(OK, answers(422)) as erp:
        desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=2))
        job = desk.sending.ready()
        desk.run(job)
        assert desk.sending.job_state(job) == "CONFIRMED"
        operation = desk.sending.operation(job)
        case = desk.happens(
            job, "outcome.contradicted", operation_id=operation.pk, finding="absent", proposal=0
        )
        desk.answer(second, asked(desk, case), desk.ben)
        assert (desk.sending.operation(job).next_step, len(erp.received)) == ("", 1)
        again = desk.once_allowed(desk.case(job, CaseKind.UNKNOWN_OUTCOME), VerbName.RESUBMIT)
        desk.act(resubmit_same_key, again, reason="They lost it.")
        desk.run(job)
        assert len(erp.received) == 2
    operation = desk.sending.operation(job)
    assert (operation.state, operation.next_step) == ("UNKNOWN", "")


def test_nobody_reopens_alone_twice_or_with_evidence_from_tomorrow(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = settled(desk)
    before = desk.snapshot(job)
    with pytest.raises(TakenInTheFuture):
        asked(desk, case, taken_at=now() + timedelta(days=1))
    with pytest.raises(StaleCase):
        desk.act(reopen, case, version=case.version - 1, evidence="x", source="y", taken_at=now())
    assert desk.snapshot(job) == before
    speaks = asked(desk, case)
    with pytest.raises(SecondIsTheAsker):
        desk.answer(second, speaks, desk.anna)
    with pytest.raises(SameVerbAsked):
        asked(desk, case)
    desk.answer(decline, speaks, desk.ben, reason="It is another payment.")
    assert (desk.sending.job_state(job), desk.fresh(speaks).resolved_at) == ("FAILED", None)


def test_a_reference_that_another_job_has_by_now_is_not_taken_from_it(erp: FaultServer) -> None:
    desk = neither(erp)
    job = desk.world.job(reference="INV-7")
    desk.freeze(job)
    desk.run(job)
    case = desk.once_allowed(desk.case(job), VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    desk.answer(second, desk.fresh(case), desk.ben)
    desk.world.job(reference="INV-7")
    speaks = asked(desk, desk.fresh(case))
    with pytest.raises(NotAllowedNow, match="has its reference, INV-7"):
        desk.answer(second, speaks, desk.ben)
    assert desk.sending.job_state(job) == "FAILED"


def test_what_was_given_back_to_the_sums_is_taken_again(erp: FaultServer) -> None:
    desk = neither(erp)
    desk.world.policy(waives_approval=True, sums=[{"amount": "100000.00", "currency": "EUR"}])
    _, case = settled(desk)
    with reading(desk.tenant_id):
        before = [r.released_at is None for r in Reservation.objects.order_by("pk")]
    desk.answer(second, asked(desk, case), desk.ben)
    with reading(desk.tenant_id):
        after = [r.released_at is None for r in Reservation.objects.order_by("pk")]
    assert (before, after) == ([False], [False, True])


def test_the_page_of_a_resolved_case_offers_it_with_a_document(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = settled(desk)
    page = html_of(as_person(desk.anna).get(address(desk, "case", case.pk)))
    assert ("If that turns out to be wrong" in page, address(desk, "case-reopen", case.pk) in page) == (
        True,
        True,
    )
    assert "Only an operator" in html_of(as_person(desk.auditor).get(address(desk, "case", case.pk)))
    given = {
        "evidence": "The bank shows it.",
        "source": "statement",
        "taken_at": now().strftime("%Y-%m-%dT%H:%M:%S"),
        "file": Upload("statement.csv", b"V-1;4800,00\n"),
    }
    response = post(desk, desk.anna, "case-reopen", case, **given)
    speaks = desk.case(job, CaseKind.CONTRADICTED)
    assert (response.status_code, response.headers["Location"]) == (302, address(desk, "case", speaks.pk))
    assert [e.file_name for e in desk.evidence(speaks)][-1] == "statement.csv"


def test_the_late_answer_of_the_first_send_after_a_second_was_applied_is_an_alarm() -> None:
    """Two people were wrong that the first never arrived; it was sent again and applied; then the first answer comes."""
    with FaultServer(fin, answers(200, as_json({**RECEIPT, "id": "R-2"}))) as erp:
        desk = neither(erp)
        job, case = desk.unknown()
        case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
        given = {"evidence": "They wrote so.", "source": "mail", "paper": a_letter(), "then": "send again"}
        desk.act(confirm_not_applied, case, **given)
        desk.answer(second, desk.fresh(case), desk.ben)
        desk.run(job)
    assert desk.sending.job_state(job) == "CONFIRMED"
    sent = desk.sending.submissions(job)[0]
    for receipt_id, kinds in (("R-2", []), ("R-1", [CaseKind.POSSIBLE_DUPLICATE])):
        with acting(desk.tenant_id):
            locked, operation = lock_job_and_operation(desk.sending.operation(job).pk)
            late = Reading(Outcome.APPLIED, "200", receipt_id=receipt_id)
            keep_late_answer(
                job=locked, operation=operation, submission=sent, reading=late, actor=WORKER, now=now()
            )
        assert [c.kind for c in desk.cases(job, open_only=True)] == kinds
    assert (desk.sending.job_state(job), desk.fresh(case).resolution) == (
        "CONFIRMED",
        "not applied, sent again",
    )
