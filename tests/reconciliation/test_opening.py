"""Which event opens which case, and what closes one by itself."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from access.roles import WORKER
from access.tenancy import acting, reading
from dispatch import sending
from dispatch.models import Operation, Submission
from reconciliation.casework import Question, open_case
from reconciliation.kinds import KINDS, VerbName
from reconciliation.models import Case, CaseKind
from tests.console.support import record_attempt
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, a_contract, a_keyed_contract, as_engine, as_json
from tests.reconciliation.world import PATIENT, Desk, a_letter, now
from workflows import hooks
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import release_job
from workflows.locks import lock_job
from workflows.models import Job, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


def stuck(desk: Desk, state: ItemState) -> tuple[Job, WorkItem]:
    """A job whose one step has stopped after three attempts."""
    from tests.workflows_for_tests import propose
    from workflows import stages

    job = desk.world.job()
    with acting(desk.tenant_id):
        stages.open_step(job=lock_job(job.pk), step=propose, now=now())
    item = desk.item(job)
    as_engine("UPDATE workflows_workitem SET state = %s, attempts = 3 WHERE id = %s", [state.number, item.pk])
    return job, item


@pytest.mark.parametrize(
    ("event", "state", "kind", "title"),
    [
        ("retry.exhausted", ItemState.EXHAUSTED, CaseKind.RETRY_EXHAUSTED, "Propose: tried 3 times"),
        (
            "item.refused",
            ItemState.REFUSED,
            CaseKind.PERMANENT_ERROR,
            "Propose: cannot succeed as it is",
        ),
    ],
)
def test_a_stopped_step_opens_a_case(
    desk: Desk, event: str, state: ItemState, kind: CaseKind, title: str
) -> None:
    job, item = stuck(desk, state)
    case = desk.happens(job, event, item=item.pk, error="Timeout")
    assert (case.kind, case.title, case.item_id, case.owner_role) == (kind, title, item.pk, "operator")
    assert (case.blocking, case.due_at - case.opened_at) == (True, KINDS[kind].due_after)
    assert desk.events(job)[-2:] == [event, "case.opened"]
    assert desk.page(case).known != []


def test_the_case_of_a_stopped_step_says_what_its_attempts_said(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.REFUSED)
    for outcome, said, name in (
        ("retryable", "the rate is not there yet.", "engine.Timeout"),
        ("worker_died", "", ""),
        ("permanent", "", "authoring.errors.Permanent"),
    ):
        record_attempt(desk.world.tenant, item.pk, outcome=outcome, error_message=said, error_class=name)
    case = desk.happens(job, "item.refused", item=item.pk, error="Permanent")
    assert [k.sentence for k in desk.page(case).known] == [
        "Retryable: the rate is not there yet (Timeout).",
        "Worker died: no error.",
        "Permanent.",
    ]


def test_the_evidence_of_a_stopped_step_is_what_its_last_attempt_said(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.REFUSED)
    name = "workflows.authoring.errors.Permanent"
    said = "V-30119 is suspended\nat the receiver."
    record_attempt(desk.world.tenant, item.pk, outcome="permanent", error_message=said, error_class=name)
    case = desk.happens(job, "item.refused", item=item.pk, error=name)
    assert [e.summary for e in desk.evidence(case)] == [
        "Attempt 3 ended with Permanent: V-30119 is suspended at the receiver."
    ]
    assert [k.sentence for k in desk.page(case).known] == ["Permanent: V-30119 is suspended at the receiver."]


def test_a_repeat_adds_evidence_to_the_open_case(desk: Desk) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    first = desk.happens(job, "retry.exhausted", item=item.pk, error="Timeout")
    again = desk.happens(job, "retry.exhausted", item=item.pk, error="Refused")
    assert again.pk == first.pk
    assert [e.summary for e in desk.evidence(first)] == [
        "Attempt 3 ended with Timeout.",
        "Attempt 3 ended with Refused.",
    ]
    assert desk.events(job)[-1] == "case.evidence_added"


def test_the_database_keeps_one_open_case_a_question(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "revision.missing", why="revision 3 is not here")
    with pytest.raises(IntegrityError, match="one_open_case_a_question"), acting(desk.tenant_id):
        Case.objects.create(
            tenant_id=desk.tenant_id, kind=case.kind, job=job, title="again", opened_at=now(), due_at=now()
        )


def test_the_database_keeps_an_answer_as_it_was_given(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    cancel_job(tenant_id=desk.tenant_id, job_id=job.pk, person_id=desk.admin.pk, reason="enough", now=now())
    closed = desk.fresh(case)
    for changes in ({"resolution": "other"}, {"resolved_at": None, "resolution": ""}, {"version": 9}):
        with pytest.raises(IntegrityError, match="is answered"), acting(desk.tenant_id):
            Case.objects.filter(pk=case.pk).update(**changes)
    assert desk.fresh(case).resolution == closed.resolution


@pytest.mark.parametrize(
    ("event", "evidence", "kind", "words"),
    [
        ("revision.missing", {"why": "gone"}, CaseKind.REVISION_MISSING, "Revision 1 of test-orders"),
        ("deadline.passed", {}, CaseKind.DEADLINE_PASSED, "by its deadline"),
        ("proposal.refused", {"why": "no receiver"}, CaseKind.PERMANENT_ERROR, "no receiver"),
        ("proposal.expired", {}, CaseKind.PROPOSAL_EXPIRED, "Nobody decided in time"),
        ("proposal.expired", {"approved": True}, CaseKind.PROPOSAL_EXPIRED, "not sent in time"),
        ("changes.requested", {"reason": "too much"}, CaseKind.CHANGES_REQUESTED, "asks for changes"),
        ("proposal.withdrawn", {"reason": ""}, CaseKind.CHANGES_REQUESTED, "took the proposal back"),
        ("proposal.voided", {"why": "source moved"}, CaseKind.FACT_CHANGED, "no longer holds"),
        ("approver.missing", {"why": "All are away.", "quorum": 2}, CaseKind.NO_APPROVER, "Who can approve"),
    ],
)
def test_what_stops_a_job_before_sending_opens_a_case(
    desk: Desk, event: str, evidence: dict[str, Any], kind: CaseKind, words: str
) -> None:
    job = desk.world.job()
    case = desk.happens(job, event, **evidence)
    assert case.kind == kind
    assert words in case.title
    assert case.owner_role == KINDS[kind].owner.value
    page = desk.page(case)
    about_a_step = {VerbName.RETRY, VerbName.CORRECT, VerbName.SKIP}
    assert [v.name for v in page.verbs] == [v for v in KINDS[kind].verbs if v not in about_a_step]
    assert page.residual_risk == ""


def test_who_can_propose_again_is_named(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    assert desk.world.submitter.username in case.title


def two_in_doubt(erp: FaultServer) -> tuple[Desk, Job]:
    """Two operations that do not wait for each other; the first one's resubmission is answered by nothing, too."""
    erp.then(fin, fin)
    desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=1))
    job, _ = desk.unknown("V-1", "V-2", independent=True)
    return desk, job


def test_an_unknown_outcome_is_one_case_for_each_operation_in_doubt(erp: FaultServer) -> None:
    desk, job = two_in_doubt(erp)
    cases = desk.cases(job)
    assert [c.kind for c in cases] == ["unknown outcome"] * 2
    assert [c.operation_id for c in cases] == [o.pk for o in desk.sending.operations(job)]
    assert cases[0].title == "Did ERP update V-1?"


def test_a_case_is_due_before_the_key_is_forgotten(erp: FaultServer) -> None:
    contract = a_keyed_contract(
        timeouts=PATIENT, automatic_resubmissions=0, retention=3600, retention_margin=0
    )
    desk = Desk.make(erp.url, contract)
    job, case = desk.unknown()
    assert case.due_at == desk.sending.operation(job).resubmit_safe_until


def test_a_part_that_was_refused_makes_the_job_partly_applied() -> None:
    with FaultServer(OK, answers(422)) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("V-1", "V-2", "V-3")
    assert (case.kind, desk.page(case).state_words) == ("partial", "Partly applied")
    assert case.operation_id == desk.sending.operations(job)[1].pk
    assert "1 of 3 changes was made" in case.title


def test_a_key_mismatch_opens_its_own_case(erp: FaultServer) -> None:
    erp.then(answers(422, as_json({"code": "key_reused"})))
    desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT))
    job, _ = desk.unknown()
    assert sorted(c.kind for c in desk.cases(job)) == ["key mismatch", "unknown outcome"]


def test_a_send_that_cannot_help_is_blocked() -> None:
    with FaultServer(answers(401)) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
    assert (case.kind, desk.sending.job_state(job)) == ("send blocked", "READY_TO_COMMIT")
    assert "answered 401" in case.title


def test_an_exhausted_sending_machine_is_a_blocked_send(desk: Desk) -> None:
    job = desk.sending.ready()
    operation = desk.sending.operation(job)
    item = desk.sending.item(operation)
    as_engine("UPDATE workflows_workitem SET state = %s, attempts = 10 WHERE id = %s", [5, item.pk])
    case = desk.happens(job, "retry.exhausted", item=item.pk, error="OSError")
    assert (case.kind, case.item_id, item.stage.name) == ("send blocked", item.pk, sending.MACHINE)


def test_a_cancelled_job_with_an_effect_keeps_a_case(erp: FaultServer) -> None:
    with FaultServer(OK, fin) as other:
        desk = Desk.make(other.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("V-1", "V-2")
        cancel_job(tenant_id=desk.tenant_id, job_id=job.pk, person_id=desk.admin.pk, reason="stop", now=now())
        from reconciliation.actions.outcomes import confirm_not_applied
        from reconciliation.actions.seconding import second
        from reconciliation.kinds import VerbName

        case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
        desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
        desk.answer(second, desk.fresh(case), desk.ben)
    assert desk.sending.job_state(job) == "CANCELLED"
    (left,) = desk.cases(job, open_only=True)
    assert (left.kind, left.blocking) == ("cancelled with effect", False)
    assert 'did "Update V-1"' in left.title


def test_evidence_against_an_ended_job_opens_a_case_and_moves_nothing(erp: FaultServer) -> None:
    from dispatch.proofs import take_as_applied
    from dispatch.settling import settle_not_applied

    desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
    job, first = desk.unknown()
    with acting(desk.tenant_id):
        locked = lock_job(job.pk)
        operation = Operation.objects.select_related("receiver", "proposed").get(job=job)
        settle_not_applied(job=locked, operation=operation, summary="attested", actor=WORKER, now=now())
    assert desk.sending.job_state(job) == "FAILED"
    with acting(desk.tenant_id):
        locked = lock_job(job.pk)
        operation = Operation.objects.get(job=job)
        take_as_applied(job=locked, operation=operation, receipt_id="R-9", actor=WORKER, now=now())
    case = desk.case(job)
    assert (case.kind, case.operation_id) == ("contradicted", operation.pk)
    assert desk.sending.job_state(job) == "FAILED"
    assert desk.fresh(first).resolution == "settled by evidence"


def test_late_evidence_closes_the_case_by_itself(erp: FaultServer) -> None:
    from dispatch.moving import observe
    from dispatch.proofs import take_as_applied

    desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
    job, case = desk.unknown()
    with acting(desk.tenant_id):
        locked = lock_job(job.pk)
        operation = Operation.objects.select_related("receiver", "proposed").get(job=job)
        observe(
            job=locked, operation=operation, kind="callback", finding="applied", proves=True, summary="it is there",
            actor=WORKER, now=now(),
        )  # fmt: skip
        take_as_applied(job=locked, operation=operation, receipt_id="R-9", actor=WORKER, now=now())
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by) == ("settled by evidence", None)
    assert desk.sending.job_state(job) == "CONFIRMED"
    assert "case.closed" in desk.events(job)


def test_the_answer_to_one_of_two_doubts_leaves_the_other_open_and_rings_for_it(erp: FaultServer) -> None:
    from reconciliation.actions.receipts import confirm_with_receipt
    from tests.reconciliation.world import receipt

    desk, job = two_in_doubt(erp)
    first, other = desk.cases(job)
    done = desk.act(confirm_with_receipt, first, receipt=receipt())
    assert (done.resolution, done.job_state) == ("applied, by receipt", "SUBMITTED")
    assert [c.pk for c in desk.cases(job, open_only=True)] == [other.pk]
    item = desk.sending.item(desk.sending.operations(job)[1])
    assert item.state_name in (ItemState.READY, ItemState.BACKING_OFF) or item.next_attempt_at is not None


def test_a_new_proposal_closes_what_stood_in_its_way(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    desk.world.policy()
    desk.freeze(job)
    assert desk.fresh(case).resolution == "went on"


def test_a_cancel_closes_the_cases_of_a_job(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    cancel_job(tenant_id=desk.tenant_id, job_id=job.pk, person_id=desk.admin.pk, reason="enough", now=now())
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by) == ("the job was cancelled", desk.admin)


def test_lifting_a_hold_by_another_door_closes_the_case(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "revision.missing", why="gone")
    with acting(desk.tenant_id):
        Job.objects.filter(pk=job.pk).update(held_at=now(), held_by="worker")
    release_job(tenant_id=desk.tenant_id, job_id=job.pk, person_id=desk.admin.pk, now=now())
    assert desk.fresh(case).resolution == "released"


def test_a_job_says_which_case_it_waits_for(desk: Desk) -> None:
    job = desk.world.job()
    case = desk.happens(job, "proposal.expired")
    with reading(desk.tenant_id):
        sentence = hooks.why_waiting(Job.objects.get(pk=job.pk))
    assert sentence is not None
    assert sentence.startswith(f"waits for an operator: {case.label}, due ")


def test_a_case_of_nothing_that_blocks_is_no_reason_to_wait(desk: Desk) -> None:
    job = desk.world.job()
    with acting(desk.tenant_id):
        question = Question(CaseKind.CONTRADICTED, "title", "told", "test")
        open_case(job=lock_job(job.pk), question=question, actor=WORKER, now=now() + timedelta(hours=1))
        sentence = hooks.why_waiting(Job.objects.get(pk=job.pk))
    assert sentence is None or "RC-" not in sentence


def test_opening_sends_nothing(desk: Desk) -> None:
    job = desk.world.job()
    desk.happens(job, "proposal.expired")
    with reading(desk.tenant_id):
        assert not Submission.objects.exists()
