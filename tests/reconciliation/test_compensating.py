"""Taking back what was applied: a job of its own, bound to the original, for no more than was applied, also at once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection

from access.models import Person
from access.refusals import NotPermitted
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from approvals.models import Proposal
from dispatch import fates
from dispatch.contracts import Action, Meaning
from dispatch.fates import Fate
from dispatch.models import Operation, Reversal
from dispatch.reversals import taken_back
from reconciliation.actions.bulk import confirm_bulk, plan_bulk
from reconciliation.actions.compensating import CannotCompensate, NotSoMuch, compensate
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.reopening import reopen
from reconciliation.actions.seconding import second
from reconciliation.actions.working import NotAllowedNow
from reconciliation.bulk.pages import bulk_page
from reconciliation.bulk.selecting import Filters
from reconciliation.bulk.working import turn
from reconciliation.kinds import VerbName
from reconciliation.models import Bulk, CaseKind
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import a_contract, as_json
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.refunding import taking_back
from tests.reconciliation.world import PATIENT, Desk, a_letter, now
from tests.support import forget_workflows, install
from workflows import journal
from workflows.actions.cancel import cancel_job
from workflows.actions.submit import OnlyByCompensating, submit_job
from workflows.authoring import Applied, BadDefinition, Workflow
from workflows.locks import lock_job
from workflows.models import Job
from workflows.states import JobState

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _with_returns(settings: Any, _own_workflow: None) -> Iterator[None]:
    install(settings, "tests.reconciliation.refunding")
    yield
    forget_workflows()


def ok(receipt: str) -> Any:
    return answers(200, as_json({"id": receipt, "record": "V-1"}))


def a_desk(erp: FaultServer) -> Desk:
    update = Action(
        method="PUT", path="/vendors/{record}", success={"200": Meaning.APPLIED}, record_path="record"
    )
    return Desk.make(erp.url, a_contract(timeouts=PATIENT, actions={"update": update}))


def applied(desk: Desk, **changes: Any) -> tuple[Job, Operation]:
    """A job whose one operation the receiver has applied."""
    job = desk.sending.ready(**{"amount": "100.00", "currency": "EUR", **changes})
    desk.run(job)
    return job, desk.sending.operation(job)


def asked(
    desk: Desk, operation: Operation, amount: str = "", person: Person | None = None, key: str = ""
) -> Job:
    """The job that an operator has started to take an operation back."""
    made = compensate(
        tenant_id=desk.tenant_id, operation_id=operation.pk, person_id=(person or desk.anna).pk, amount=amount,
        reason="The invoice was paid twice.", key=key or f"{amount}{operation.pk}", now=now(),
    )  # fmt: skip
    return desk.sending.fresh(Job(pk=made.job_id))


def proposed(desk: Desk, job: Job, change: Callable[[dict[str, Any]], None] | None = None) -> None:
    """Have its workflow propose, as the engine does."""
    with acting(desk.tenant_id):
        locked = lock_job(job.pk)
        journal.transition(
            job=locked, to=JobState.VALIDATED, event="job.validated", actor=WORKER, evidence={}
        )
    draft = taking_back(Applied.model_validate_json(job.input)).model_dump(mode="json")
    if change is not None:
        change(draft)
    desk.world.freeze(job, draft)


def sent(desk: Desk, job: Job) -> Operation:
    proposed(desk, job)
    desk.run(job)
    return desk.sending.operation(job)


def fate(desk: Desk, job: Job) -> fates.FateOf:
    with reading(desk.tenant_id):
        (found,) = fates.fates(desk.sending.fresh(job))
        return found


def left(desk: Desk, operation: Operation) -> tuple[int, int]:
    with reading(desk.tenant_id):
        taken = taken_back(operation)
        return taken.surely, taken.left


def test_it_is_a_job_of_its_own_with_its_own_key_and_approval_bound_to_the_receipt() -> None:
    with FaultServer(ok("R-1"), ok("R-2")) as erp:
        desk = a_desk(erp)
        job, operation = applied(desk)
        desk.world.policy(waives_approval=False)
        back = asked(desk, operation)
        assert (back.workflow, back.submitted_by_id, back.state) == ("test-returns", desk.anna.pk, "RECEIVED")
        given = Applied.model_validate_json(back.input)
        assert (given.receipt_id, given.record, given.body, given.amount) == (
            "R-1", "V-1", {"limit": "4800.00"}, given.applied_amount,
        )  # fmt: skip
        assert given.changes[0].current == "20000.00"
        proposed(desk, back)
        assert desk.sending.job_state(back) == "AWAITING_APPROVAL"
        assert fate(desk, job).fate is Fate.STANDS
        assert f"{back.label} is to take it back" in fate(desk, job).sentence
        with reading(desk.tenant_id):
            slip = Proposal.objects.get(job=back)
        desk.world.decide(slip, desk.world.manager)
        desk.run(back)
        undone = desk.sending.operation(back)
    assert (undone.state, undone.operation_key != operation.operation_key) == ("CONFIRMED", True)
    assert (desk.sending.job_state(job), desk.sending.job_state(back)) == ("CONFIRMED", "CONFIRMED")
    assert fate(desk, job).fate is Fate.REVERSED
    with reading(desk.tenant_id):
        bound = Reversal.objects.get()
    assert (bound.original_id, bound.job_id, bound.receipt_id, bound.amount_minor) == (
        operation.pk,
        back.pk,
        "R-1",
        10000,
    )
    assert "operation.compensation_asked" in desk.events(job)


def test_parts_add_up_to_no_more_than_was_applied_and_a_compensation_can_be_compensated() -> None:
    with FaultServer(*(ok(f"R-{n}") for n in range(1, 6))) as erp:
        desk = a_desk(erp)
        job, operation = applied(desk)
        first = asked(desk, operation, "60.00")
        for wrong in ("40.01", "0", "-5", "NaN", "1.005", "much", "1e1", "4_0", "١٢"):
            with pytest.raises(NotSoMuch):
                asked(desk, operation, wrong)
        paid_back = sent(desk, first)
        assert (left(desk, operation), fate(desk, job).fate) == ((6000, 4000), Fate.STANDS)
        assert "€ 60.00 of it is taken back" in fate(desk, job).sentence
        asked(desk, operation, "40.00")
        with pytest.raises(CannotCompensate, match="being taken back already"):
            asked(desk, operation, "0.01")
        # What was taken back is done again: then it can be taken back once more.
        again = asked(desk, paid_back)
        assert again.workflow == "test-again"
        assert left(desk, operation) == (0, 0)
        sent(desk, again)
        assert left(desk, operation) == (0, 6000)
        assert fate(desk, first).fate is Fate.REVERSED


def test_what_ended_without_effect_takes_nothing_back_and_what_is_in_doubt_does() -> None:
    with FaultServer(ok("R-1"), fin) as erp:
        desk = a_desk(erp)
        job, operation = applied(desk)
        back = asked(desk, operation)
        cancel_job(tenant_id=desk.tenant_id, job_id=back.pk, person_id=desk.admin.pk, reason="no", now=now())
        assert left(desk, operation) == (0, 10000)
        again = asked(desk, operation, key="second")
        doubtful = sent(desk, again)
        assert (doubtful.state, left(desk, operation)) == ("UNKNOWN", (0, 0))
        assert fate(desk, job).fate is Fate.CHECKING
        case = desk.once_allowed(desk.case(again), VerbName.CONFIRM_NOT_APPLIED)
        desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
        desk.answer(second, desk.fresh(case), desk.ben)
    assert (left(desk, operation), fate(desk, job).fate) == ((0, 10000), Fate.STANDS)


def test_only_what_was_applied_by_whom_it_may_and_only_where_somebody_wrote_how(settings: Any) -> None:
    with FaultServer(fin, answers(200, as_json({"id": "R-1", "record": "V-2"}))) as erp:
        desk = a_desk(erp)
        job, case = desk.unknown(amount="100.00", currency="EUR")
        with pytest.raises(CannotCompensate, match="Only what was applied"):
            asked(desk, desk.sending.operation(job))
        assert case.kind == CaseKind.UNKNOWN_OUTCOME
        _, operation = applied(desk, record="V-2")
        for person in (desk.admin, desk.world.manager, desk.world.submitter, desk.auditor):
            with pytest.raises(NotPermitted):
                asked(desk, operation, person=person)
        with pytest.raises(OnlyByCompensating, match="compensate that"):
            submit_job(
                tenant_id=desk.tenant_id, workflow="test-returns", value={}, submission_key="k",
                person_id=desk.world.submitter.pk, source="test", now=now(),
            )  # fmt: skip
        install(settings, "tests.workflows_for_tests")
        with pytest.raises(CannotCompensate, match="No workflow here says that it compensates test-orders"):
            asked(desk, operation)
    with reading(desk.tenant_id):
        assert not Reversal.objects.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["operations"].append(dict(d["operations"][0])), "proposes one operation"),
        (lambda d: d["operations"][0].update(receiver="bank"), "goes to the receiver of"),
        (lambda d: d["operations"][0].update(amount="100.01"), "No more than € 100.00 was asked"),
        (lambda d: d["operations"][0].update(currency="USD"), "has an amount in EUR"),
        (lambda d: d["operations"][0].update(amount=None, currency=None), "has an amount in EUR"),
        (lambda d: d["operations"][0].update(body={}), "names that nowhere"),
    ],
)
def test_a_proposal_that_is_not_what_was_asked_for_is_not_made(
    change: Callable[[Any], None], said: str
) -> None:
    with FaultServer(ok("R-1")) as erp:
        desk = a_desk(erp)
        _, operation = applied(desk)
        back = asked(desk, operation)
        proposed(desk, back, change)
        assert desk.sending.job_state(back) == "VALIDATED"
        assert said in desk.case(back).title or said in desk.case(back).detail
        assert len(erp.received) == 1


def test_a_second_press_starts_no_second_job_and_two_at_once_take_no_more_than_there_is() -> None:
    with FaultServer(ok("R-1")) as erp:
        desk = a_desk(erp)
        _, operation = applied(desk)
        assert asked(desk, operation, "10.00", key="k").pk == asked(desk, operation, "10.00", key="k").pk
        ends: list[str] = []

        def press(key: str) -> None:
            try:
                asked(desk, operation, "60.00", key=key)
                ends.append("made")
            except (NotSoMuch, CannotCompensate):
                ends.append("refused")
            finally:
                connection.close()

        threads = [threading.Thread(target=press, args=(key,)) for key in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(ends) == ["made", "refused"]
    assert left(desk, operation) == (0, 3000)


def test_the_database_takes_back_no_more_either_and_keeps_what_is_bound() -> None:
    with FaultServer(ok("R-1")) as erp:
        desk = a_desk(erp)
        job, operation = applied(desk)
        back, other = asked(desk, operation, "60.00"), desk.world.job()
        for amount, currency, receipt in (
            (4001, "EUR", "R-1"),
            (1, "USD", "R-1"),
            (1, "EUR", "R-9"),
            (None, "", "R-1"),
        ):
            with pytest.raises(IntegrityError), acting(desk.tenant_id):
                Reversal.objects.create(
                    tenant_id=desk.tenant_id, original=operation, job=other, receipt_id=receipt, amount_minor=amount,
                    currency=currency, reason="x", asked_by="x", asked_at=now(),
                )  # fmt: skip
        with (
            psycopg.connect(os.environ["DATABASE_URL"]) as owner,
            pytest.raises(psycopg.Error, match="append-only"),
        ):
            owner.execute("UPDATE dispatch_reversal SET amount_minor = 1")
    assert (back.pk, job.pk) != (other.pk, other.pk)


def test_what_is_compensated_is_not_reopened() -> None:
    with FaultServer(ok("R-1")) as erp:
        desk = a_desk(erp)
        job, operation = applied(desk)
        case = desk.happens(
            job, "outcome.contradicted", operation_id=operation.pk, finding="absent", proposal=0
        )
        asked(desk, operation, "1.00")
        with pytest.raises(NotAllowedNow, match="is compensated, by JOB-"):
            desk.act(reopen, case, evidence="x", source="y", taken_at=now())


def in_bulk(desk: Desk, verb: str, person: Person) -> int:
    """Plan, confirm and do a bulk, as its pages and the workers do; its id."""
    planned = plan_bulk(
        tenant_id=desk.tenant_id, person_id=person.pk, verb=verb, filters=Filters(), now=now()
    )
    confirm_bulk(
        tenant_id=desk.tenant_id, bulk_id=planned.bulk_id, person_id=person.pk, reason="The batch was wrong.",
        attempts=None, now=now(),
    )  # fmt: skip
    while turn(desk.tenant_id, planned.bulk_id, "w"):
        pass
    return planned.bulk_id


def results(desk: Desk, bulk_id: int) -> list[tuple[int, str, list[tuple[Fate, int]]]]:
    with reading(desk.tenant_id):
        page = bulk_page(bulk_id, frozenset({Role.OPERATOR, Role.ADMIN}))
        return [(row.entry.job_id, row.entry.state, list(row.fates)) for row in page.rows]


def test_many_are_compensated_each_with_its_own_result_and_cancelled_with_the_fate_of_each() -> None:
    with FaultServer(ok("R-1"), ok("R-2"), answers(422), fin) as erp:
        desk = a_desk(erp)
        (first, one), (second_, _), (refused, _) = (applied(desk) for _ in range(3))
        asked(desk, one)
        bulk_id = in_bulk(desk, "compensate", desk.anna)
        assert results(desk, bulk_id) == [
            (first.pk, "refused", []),
            (second_.pk, "done", [(Fate.STANDS, 1)]),
        ]
        assert desk.sending.job_state(refused) == "FAILED"
        with reading(desk.tenant_id):
            assert Reversal.objects.count() == 2
            assert Reversal.objects.latest("pk").reason == "The batch was wrong."
        doubtful, _ = desk.unknown()
        unsent = desk.sending.ready()
        found = {
            job: (state, fates) for job, state, fates in results(desk, in_bulk(desk, "cancel", desk.admin))
        }
        assert found[doubtful.pk] == ("done", [(Fate.CHECKING, 1)])
        assert found[unsent.pk] == ("done", [(Fate.STOPPED, 1)])
        with reading(desk.tenant_id):
            latest = Bulk.objects.latest("pk").pk
        assert "Outcome still being checked" in html_of(
            as_person(desk.admin).get(address(desk, "bulk", latest))
        )
        listed = html_of(as_person(desk.anna).get(f"{address(desk, 'jobs')}?state=CONFIRMED"))
        assert "verb=compensate&amp;state=CONFIRMED" in listed


def test_the_pages_of_the_case_and_of_both_jobs_lead_to_it() -> None:
    with FaultServer(ok("R-1")) as erp:
        desk = a_desk(erp)
        job, operation = applied(desk)
        case = desk.happens(
            job, "outcome.contradicted", operation_id=operation.pk, finding="absent", proposal=0
        )
        link = address(desk, "operation-compensate", job.pk, operation.pk)
        browser = as_person(desk.anna)
        for page in ("case", "job"):
            assert link in html_of(browser.get(address(desk, page, case.pk if page == "case" else job.pk))), (
                page
            )
        assert link not in html_of(as_person(desk.auditor).get(address(desk, "job", job.pk)))
        form = html_of(browser.get(link))
        assert ("at most 100.00" in form, "Returns" in form) == (True, True)
        wrong = browser.post(link, {"amount": "200", "reason": "twice", "key": "k"})
        assert (wrong.status_code, "no more than the € 100.00 that are left" in html_of(wrong)) == (422, True)
        right = browser.post(link, {"amount": "100", "reason": "twice", "key": "k"})
        with reading(desk.tenant_id):
            back = Reversal.objects.get().job
        assert (right.status_code, right.headers["Location"]) == (302, address(desk, "job", back.pk))
        original = html_of(browser.get(address(desk, "job", job.pk)))
        assert ("compensated by" in original, "Change not reversed" in original) == (True, True)
        assert "Takes back" in html_of(browser.get(address(desk, "job", back.pk)))
        assert "being taken back already" in html_of(browser.get(link))
        assert as_person(desk.world.manager).get(link).status_code == 403


def test_a_workflow_that_compensates_has_the_input_for_it() -> None:
    from tests.workflows_for_tests import Order

    with pytest.raises(BadDefinition, match="Applied as its input"):
        Workflow("w", revision="1", input=Order, compensates=("test-orders",))


@pytest.mark.parametrize("amount", ["1E999999", "1E-999999999", "9" * 60])
def test_an_amount_that_cannot_be_worked_out_takes_nothing_back(amount: str) -> None:
    with FaultServer(ok("R-1")) as erp:
        desk = a_desk(erp)
        _, operation = applied(desk)
        with pytest.raises(NotSoMuch):
            asked(desk, operation, amount=amount)
