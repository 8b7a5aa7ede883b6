"""A key mismatch: the receiver holds other content under our key. Nothing more of the workflow is sent there until a person
has answered; it is an incident at once."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from access import prepared
from access.authority import NotPermitted
from access.tenancy import acting, reading
from dispatch.looking import UNSEEN
from dispatch.marker import barrier
from dispatch.models import Receiver
from dispatch.opening import NotOpened, Opened, open_submission
from dispatch.wire import NotBegun
from outbox.models import Message
from reconciliation import mismatched
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.seconding import second
from reconciliation.actions.steps import record_outcome
from reconciliation.incidents.joining import Fault
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind, Incident
from reconciliation.verbs import Verb
from tests.approvals.world import draft, operation
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import BODY, a_keyed_contract, as_engine, as_json, as_owner, receipt
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.plans import beside_many_cases
from tests.reconciliation.refunding import returns
from tests.reconciliation.storm import incidents, members, sweep
from tests.reconciliation.test_incidents import waits_for_a_sweep
from tests.reconciliation.world import PATIENT, Desk, a_letter, now
from tests.support import forget_workflows, install, make_tenant
from workflows.hooks import why_waiting
from workflows.models import Job, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
OTHER = answers(422, as_json({"code": "key_reused"}))
ANSWER: dict[str, Any] = {
    "outcome": "the receiver was mistaken",
    "evidence": "They had mixed up two keys.",
    "source": "ticket 4711",
}


@pytest.fixture(autouse=True)
def _two_workflows(settings: Any, _own_workflow: None) -> Iterator[None]:
    install(settings, "tests.reconciliation.refunding")
    yield
    forget_workflows()


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(OTHER) as server:
        yield server


@pytest.fixture
def desk(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT))


def mismatched_case(desk: Desk, record: str = "V-1") -> tuple[Job, Case]:
    """A job whose first send found other content under its key, and the case that says so."""
    job, _ = desk.unknown(record)
    return job, desk.case(job, CaseKind.KEY_MISMATCH)


def of_another_workflow(desk: Desk, record: str) -> Job:
    job = desk.world.job(workflow=returns, title=f"Return {record}")
    desk.world.freeze(job, draft(operations=[operation(action="update", record=record, body=BODY)]))
    return job


def why(desk: Desk, job: Job) -> str:
    with reading(desk.tenant_id):
        return why_waiting(desk.sending.fresh(job)) or ""


def opened(desk: Desk, job: Job) -> Opened | NotOpened:
    one = desk.sending.operation(job)
    return open_submission(claim=desk.sending.claim(one), operation_id=one.pk, looked=UNSEEN, now=now())


def test_it_stops_its_workflow_at_that_receiver_until_it_is_answered(desk: Desk, erp: FaultServer) -> None:
    """The second job waits and says why, another workflow sends, and the answer lets the second one go."""
    first, case = mismatched_case(desk)
    assert desk.sending.job_state(first) == "NEEDS_RECONCILIATION"
    later, other = desk.sending.ready("V-2"), of_another_workflow(desk, "V-3")
    desk.sending.step(desk.sending.operation(later))
    assert (desk.sending.job_state(later), desk.sending.submissions(later)) == ("READY_TO_COMMIT", [])
    assert len(erp.received) == 1
    said = (
        "nothing is sent: ERP holds other content under a key of this workflow, and nothing of it is sent there until"
        f" {case.label} is answered."
    )
    assert why(desk, later) == said
    assert case.label in html_of(as_person(desk.anna).get(address(desk, "job", later.pk)))
    erp.then(answers(200, receipt("V-3")))
    desk.run(other)
    assert desk.sending.job_state(other) == "CONFIRMED"
    erp.then(answers(200, receipt("V-2")))
    desk.act(record_outcome, case, **ANSWER)
    desk.run(later)
    assert desk.sending.job_state(later) == "CONFIRMED"
    assert len(erp.received) == 3
    assert desk.sending.job_state(first) == "NEEDS_RECONCILIATION", (
        "what became of the first is another question"
    )


def test_a_send_that_was_opened_before_it_does_not_leave_after_it(desk: Desk, erp: FaultServer) -> None:
    """The second job's send passes every check; before its first byte the receiver answers the first one."""
    later = desk.sending.ready("V-2")
    send = opened(desk, later)
    assert isinstance(send, Opened)
    _, case = mismatched_case(desk)
    with pytest.raises(NotBegun, match=mismatched.HELD_BACK):
        barrier(send.sender)()
    assert desk.sending.submissions(later)[0].may_have_been_sent_at is None
    desk.act(record_outcome, case, **ANSWER)
    barrier(send.sender)()
    assert desk.sending.submissions(later)[0].may_have_been_sent_at is not None


def test_another_receiver_and_another_organisation_are_not_stopped(desk: Desk, erp: FaultServer) -> None:
    mismatched_case(desk)
    stranger = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT))
    erp.then(answers(200, receipt("V-2")), answers(200, receipt("V-2")))
    theirs = stranger.sending.ready("V-2")
    stranger.run(theirs)
    assert stranger.sending.job_state(theirs) == "CONFIRMED"
    with acting(desk.tenant_id):
        receiver = Receiver.objects.get(name="erp")
        elsewhere = Receiver.objects.create(
            tenant_id=desk.tenant_id, name="bank", title="Bank", base_url=receiver.base_url
        )
    one = desk.sending.ready("V-2")
    assert why(desk, one)
    as_owner("reconciliation_case", "receiver_id = %s WHERE kind = 'key mismatch'", [elsewhere.pk])
    assert not why(desk, one).startswith("nothing is sent")
    desk.run(one)
    assert desk.sending.job_state(one) == "CONFIRMED"


def test_of_two_mismatches_the_last_answer_lets_go(desk: Desk, erp: FaultServer) -> None:
    """Both were on their way; the second answer joins the incident of the first."""
    sends = [(job, opened(desk, job)) for job in (desk.sending.ready("V-1"), desk.sending.ready("V-2"))]
    cases = [desk.happens(job, "operation.key_mismatch", operation_id=s.operation_id, why="other content")
             for job, s in sends if isinstance(s, Opened)]  # fmt: skip
    (incident,) = incidents(desk)
    assert [c.incident_id for c in cases] == [incident.pk] * 2
    third = desk.sending.ready("V-3")
    desk.act(record_outcome, cases[0], **ANSWER)
    assert cases[1].label in why(desk, third)
    assert isinstance(opened(desk, third), NotOpened)
    desk.act(record_outcome, cases[1], **{**ANSWER, "outcome": "our fault, corrected"})
    assert isinstance(opened(desk, third), Opened)


def test_nobody_orders_a_resubmission_past_it(desk: Desk, erp: FaultServer) -> None:
    erp.then(fin, fin, fin)
    lost = desk.sending.ready("V-2")
    one = desk.sending.operation(lost)
    job, case = mismatched_case(desk)
    as_owner(
        "dispatch_operation",
        "state = 'UNKNOWN', next_step = '', first_may_have_been_sent_at = now(),"
        " resubmit_safe_until = now() + interval '1 h' WHERE id = %s",
        [one.pk],
    )
    doubtful = desk.happens(lost, "operation.quarantined", operation_id=one.pk, known_until=now().isoformat())
    assert (doubtful.kind, resubmission(desk, doubtful).allowed) == ("unknown outcome", False)
    assert f"until {case.label} is answered" in resubmission(desk, doubtful).why_not
    mine = desk.case(job, CaseKind.UNKNOWN_OUTCOME)
    assert f"until {case.label} is answered" in resubmission(desk, mine).why_not, "its own send neither"
    assert VerbName.CONFIRM_NOT_APPLIED in {v.name for v in desk.page(mine).verbs}, (
        "it can be settled without a send"
    )
    desk.act(record_outcome, case, **ANSWER)
    assert f"until {case.label}" not in resubmission(desk, doubtful).why_not


def resubmission(desk: Desk, case: Case) -> Verb:
    return desk.verb(desk.fresh(case), VerbName.RESUBMIT)


def test_an_operator_or_an_admin_answers_and_nobody_else(desk: Desk) -> None:
    _, case = mismatched_case(desk)
    for person in (desk.auditor, desk.world.submitter, desk.world.manager):
        with pytest.raises(NotPermitted):
            desk.act(record_outcome, case, person, **ANSWER)
    assert desk.fresh(case).resolved_at is None
    desk.act(record_outcome, case, desk.admin, **ANSWER)
    assert desk.fresh(case).resolved_by == desk.admin


def test_what_became_of_the_operation_does_not_answer_it(desk: Desk) -> None:
    """That it was not applied says nothing of what the next send would meet."""
    job, case = mismatched_case(desk)
    doubt = desk.once_allowed(desk.case(job, CaseKind.UNKNOWN_OUTCOME), VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, doubt, evidence="They wrote so.", source="mail", paper=a_letter())
    desk.answer(second, desk.fresh(doubt), desk.ben)
    assert desk.sending.operation(job).state == "NOT_APPLIED"
    assert desk.fresh(case).resolved_at is None
    assert case.label in why(desk, desk.sending.ready("V-2"))


def test_the_answer_rings_for_what_waited(desk: Desk) -> None:
    """Nothing rings between; each send would look again after a minute."""
    _, case = mismatched_case(desk)
    waiting, other = desk.sending.ready("V-2"), of_another_workflow(desk, "V-3")
    ids = [desk.sending.item(desk.sending.operation(j)).pk for j in (waiting, other)]
    as_engine(
        "UPDATE workflows_workitem SET state = %s, next_attempt_at = now() + interval '1 min' WHERE id = ANY(%s)",
        [ItemState.BACKING_OFF.number, ids],
    )
    desk.act(record_outcome, case, **ANSWER)
    with reading(desk.tenant_id):
        items = WorkItem.objects.in_bulk(ids)
    found = [items[i].state for i in ids]
    assert found == [ItemState.READY.number, ItemState.BACKING_OFF.number], (
        "the other waits for something else"
    )


def test_one_alone_is_an_incident_of_which_people_are_told_once(desk: Desk, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.test"
    _, case = mismatched_case(desk)
    (incident,) = incidents(desk)
    assert (incident.kind, case.incident_id) == ("key mismatch", incident.pk)
    assert (sweep(desk).announced, sweep(desk).announced) == (1, 0)
    with reading(desk.tenant_id):
        told = list(Message.objects.filter(person=desk.anna, subject__incident=incident.pk))
        events = Counter(Message.objects.filter(person=desk.anna).values_list("event", flat=True))
    titles = [json.loads(m.payload)["data"]["title"].partition(": ")[2] for m in told]
    assert titles == ["key mismatch at ERP, 1 case so far"]
    assert events == {"case.opened": 1, "incident.opened": 1}, "the other case asks what became of it"
    html = html_of(as_person(desk.anna).get(address(desk, "incident", incident.pk)))
    assert "Nothing of Orders for tests is sent to ERP" in html
    assert "Nothing of Orders for tests is sent to ERP" not in html_of(
        as_person(desk.anna).get(address(desk, "cases"))
    )
    desk.act(record_outcome, case, **ANSWER)
    assert sweep(desk).closed == 1
    html = html_of(as_person(desk.anna).get(address(desk, "incident", incident.pk)))
    assert "Nothing of test-orders" not in html


def test_one_that_could_not_open_its_incident_has_one_within_seconds(desk: Desk) -> None:
    """Another transaction held the lock of the fault: it opened the incident with a later clock, or was rolled back."""
    job = desk.sending.ready()
    one = desk.sending.operation(job)
    with psycopg.connect(os.environ["DATABASE_URL"]) as opening:
        fault = Fault(desk.tenant_id, one.receiver_id, "key mismatch", "other content")
        name = f"incident:{fault.tenant_id}:{fault.receiver_id}:{fault.kind}:{fault.fault}"
        opening.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 2))", [name])
        case = desk.happens(job, "operation.key_mismatch", operation_id=one.pk, why="other content")
        opening.rollback()
    assert (case.incident_id, incidents(desk)) == (None, [])
    swept = sweep(desk)
    assert (swept.begun, swept.announced, swept.joined) == (1, 1, 1)
    with acting(desk.tenant_id):
        Case.objects.update(incident=None)
        Incident.objects.update(announced_at=None)
    as_owner(
        "reconciliation_incident",
        "began_at = began_at + interval '1 s' WHERE tenant_id = %s",
        [desk.tenant_id],
    )
    swept = sweep(desk)
    assert (swept.begun, swept.announced, swept.joined) == (0, 1, 1)
    assert [c.pk for c in members(desk, incidents(desk)[0])] == [case.pk]


def test_nothing_is_left_to_sweep_of_an_old_one(desk: Desk) -> None:
    """Engines look every three seconds: what they find, they bring to an end."""
    _, case = mismatched_case(desk)
    assert waits_for_a_sweep(desk)
    sweep(desk)
    assert not waits_for_a_sweep(desk)
    with acting(desk.tenant_id):
        Case.objects.update(incident=None)
    as_owner("reconciliation_case", "opened_at = %s WHERE id = %s", [now() - timedelta(minutes=30), case.pk])
    as_owner(
        "reconciliation_incident", "closed_at = now() - interval '2 h' WHERE tenant_id = %s", [desk.tenant_id]
    )
    assert not waits_for_a_sweep(desk)


def test_a_connector_that_says_nothing_more_has_an_incident_too(desk: Desk) -> None:
    job = desk.sending.ready()
    case = desk.happens(job, "operation.key_mismatch", operation_id=desk.sending.operation(job).pk, why="")
    assert [(i.fault, case.incident_id) for i in incidents(desk)] == [
        ("other content under our key", incidents(desk)[0].pk)
    ]


def test_every_send_finds_it_by_a_small_index() -> None:
    """Mostly there is none, and the index is empty then, however many other cases are open."""
    tenant = make_tenant()
    text, _ = prepared._numbered(mismatched._OPEN)
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        beside_many_cases(owner, tenant.pk)
        owner.execute("SELECT set_config('app.tenant', %s, true)", [str(tenant.pk)])
        owner.execute("SET LOCAL ROLE counterfoil_app")
        plan = "\n".join(row[0] for row in owner.execute(b"EXPLAIN (GENERIC_PLAN) " + text))
        owner.rollback()
    assert "Index Scan using case_key_mismatch" in plan, plan
