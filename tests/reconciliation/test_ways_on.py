"""What correcting, skipping and redriving mean to the rooms above: cases, four eyes, operations and new proposals."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.db import IntegrityError, connection

from access.models import Membership, Person
from access.roles import WORKER, Role
from access.tenancy import acting, reading
from approvals.freezing import freeze
from approvals.models import ProposedOperation
from approvals.rules import FourEyes
from dispatch import proofs
from dispatch.locks import lock_job_and_operation
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.seconding import second
from reconciliation.actions.steps import give_up, record_outcome
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind
from tests.approvals.world import draft, operation
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import BODY, RECEIPT, a_contract, a_keyed_contract, as_engine, as_json, as_owner
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.test_opening import stuck
from tests.reconciliation.world import PATIENT, Desk, a_letter, now
from workflows import journal
from workflows.actions.correct import correct_item
from workflows.actions.redrive import NotRedrivable, redrive_job
from workflows.locks import lock_job
from workflows.models import Job, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))


@pytest.fixture
def desk() -> Desk:
    return Desk.make("http://127.0.0.1:9", a_contract())


def stopped(desk: Desk) -> tuple[Job, WorkItem, Case]:
    job, item = stuck(desk, ItemState.REFUSED)
    return job, item, desk.happens(job, "item.refused", item=item.pk, error="Permanent")


def correct(desk: Desk, item: WorkItem, person: Person) -> None:
    order = {"item": "V-1", "amount": "4700.00", "currency": "EUR"}
    correct_item(
        tenant_id=desk.tenant_id,
        item_id=item.pk,
        person_id=person.pk,
        text=json.dumps({"order": order}),
        attempts=1,
        reason="it was 4700",
        now=now(),
    )


def redrive(desk: Desk, job: Job, person: Person | None = None) -> Any:
    return redrive_job(
        tenant_id=desk.tenant_id,
        job_id=job.pk,
        person_id=(person or desk.anna).pk,
        attempts=1,
        reason="they have put it right",
        now=now(),
    )


def as_manager_too(desk: Desk, person: Person) -> Person:
    with acting(desk.tenant_id):
        Membership.objects.create(tenant=desk.world.tenant, person=person, role=Role.MANAGER)
    return person


def test_a_correction_answers_the_case_of_the_step(desk: Desk) -> None:
    job, item, case = stopped(desk)
    correct(desk, item, desk.anna)
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by, closed.resolution_reason) == (
        "corrected, tried again",
        desk.anna,
        "it was 4700",
    )
    assert desk.events(job)[-2:] == ["item.corrected", "case.closed"]


def test_a_stage_that_closes_without_an_item_answers_its_case(desk: Desk) -> None:
    job, item, case = stopped(desk)
    with acting(desk.tenant_id):
        journal.record(
            job=lock_job(job.pk), event="stage.closed", actor=WORKER, evidence={"stage": item.stage.name}
        )
    assert desk.fresh(case).resolution == "went on without it"


@pytest.mark.parametrize(
    ("outcomes", "title", "told"),
    [
        (
            ["worker died", "lease lost", "worker died"],
            "Propose: it stopped its worker 3 times",
            "Its worker stopped while it ran, 3 times in 3 attempts.",
        ),
        (
            ["retryable", "retryable", "worker died"],
            "Propose: tried 3 times, and stopped its worker once",
            "Its worker stopped while it ran, once in 3 attempts.",
        ),
        (
            ["worker died", "retryable", "retryable"],
            "Propose: tried 3 times",
            "Attempt 3 ended with Timeout.",
        ),
    ],
)
def test_the_case_of_an_item_that_stopped_its_worker_says_so(
    desk: Desk, outcomes: list[str], title: str, told: str
) -> None:
    job, item = stuck(desk, ItemState.EXHAUSTED)
    for number, outcome in enumerate(outcomes, start=1):
        as_engine(
            "INSERT INTO workflows_attempt (tenant_id, item_id, number, claim_no, worker_name, started_at, ended_at,"
            " outcome, error_class, error_message, route, tokens_in, tokens_out, cost)"
            " VALUES (%s, %s, %s, %s, 'w', now(), now(), %s, '', '', '', 0, 0, 0)",
            [desk.tenant_id, item.pk, number, number, outcome],
        )
    case = desk.happens(job, "retry.exhausted", item=item.pk, error="Timeout", outcome=outcomes[-1])
    assert (case.title, case.detail) == (title, told)


def test_who_corrected_an_input_may_not_approve_what_comes_of_it(desk: Desk) -> None:
    desk.world.policy(waives_approval=False)
    job, item, _ = stopped(desk)
    both = as_manager_too(desk, desk.anna)
    correct(desk, item, both)
    with acting(desk.tenant_id):
        freeze(lock_job(job.pk), json.dumps(draft(operations=[operation(action="update", body=BODY)])), now())
    proposal = desk.world.proposal(job)
    page = as_person(desk.world.manager).get(address(desk, "approval", proposal.pk)).content.decode()
    assert "Changed by people on the way" in page
    assert f"by <b>{both.username}</b>: it was 4700" in page
    with pytest.raises(FourEyes, match="had a hand"):
        desk.world.decide(proposal, both)
    assert desk.world.state(job) == "AWAITING_APPROVAL"
    desk.world.decide(proposal, desk.world.manager)
    assert desk.world.state(job) == "READY_TO_COMMIT"


@pytest.mark.parametrize("event", ["item.skipped", "job.redriven"])
def test_who_left_an_item_out_or_redrove_may_not_approve_either(desk: Desk, event: str) -> None:
    from approvals.facts import facts_of

    desk.world.policy(waives_approval=False)
    job = desk.world.job()
    desk.freeze(job)
    proposal = desk.world.proposal(job)
    both = as_manager_too(desk, desk.anna)
    with acting(desk.tenant_id):
        assert facts_of(proposal).objection(both.pk) is None
        actor = journal_actor(both)
        evidence = {"item": 0, "stage": "x", "key": "1", "reason": "x"}
        journal.record(job=lock_job(job.pk), event=event, actor=actor, evidence=evidence)
        assert isinstance(facts_of(proposal).objection(both.pk), FourEyes)


def journal_actor(person: Person) -> Any:
    from access.roles import Actor, ActorKind

    return Actor(ActorKind.OPERATOR, person.username, person.pk)


def test_a_refused_job_is_redriven_into_a_new_proposal_for_a_new_approval() -> None:
    with FaultServer(answers(422), OK) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job = desk.sending.ready()
        desk.run(job)
        assert desk.sending.job_state(job) == "FAILED"
        old = desk.sending.operation(job)
        desk.world.policy(waives_approval=False)
        done = redrive(desk, job)
        assert (done.items, done.job_state) == (0, "AWAITING_APPROVAL")
        desk.world.decide(desk.world.proposal(job), desk.world.manager)
        desk.run(job)
        assert len(erp.received) == 2
    first, second = desk.sending.operations(job)
    assert (first.pk, first.state, second.state) == (old.pk, "REFUSED", "CONFIRMED")
    assert first.operation_key == second.operation_key
    assert desk.sending.job_state(job) == "CONFIRMED"


def attested_and_failed(desk: Desk) -> Job:
    """A job that was sent, and that two people attest was not applied."""
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    desk.answer(second, desk.fresh(case), desk.ben)
    return job


def test_what_may_have_been_sent_goes_out_again_under_its_key_and_the_slip_names_it() -> None:
    with FaultServer(fin, OK) as erp:
        desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0))
        job = attested_and_failed(desk)
        desk.world.policy(waives_approval=False)
        redrive(desk, job)
        slip = as_person(desk.world.manager).get(address(desk, "approval", desk.world.proposal(job).pk))
        assert ("it was not applied" in html_of(slip), "They wrote so." in html_of(slip)) == (True, True)
        desk.world.decide(desk.world.proposal(job), desk.world.manager)
        desk.run(job)
        keys = {re.search(rb"(?i)idempotency-key: (\S+)", r).group(1) for r in erp.received}  # type: ignore[union-attr]
    assert (len(erp.received), len(keys)) == (2, 1)
    assert [o.state for o in desk.sending.operations(job)] == ["NOT_APPLIED", "CONFIRMED"]


@pytest.mark.parametrize(
    ("rules", "signatures"),
    [
        ({"waives_approval": True}, 2),
        ({"four_eyes": False}, 2),
        ({"four_eyes": False, "quorum": 2}, 2),
        ({}, 1),
    ],
)
def test_something_else_than_may_have_been_sent_takes_a_second_person(
    rules: dict[str, Any], signatures: int
) -> None:
    """Beside whoever had it proposed: where the policy lets nobody else look at it, two managers sign."""
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0))
        job = attested_and_failed(desk)
        old = desk.sending.operation(job)
        # What running its steps again comes to: another draft of the same change.
        as_owner("workflows_checkpoint", "output = replace(output, '4800.00', '4700.00')", [])
        desk.world.policy(**{"waives_approval": False, **rules})
        assert redrive(desk, job).job_state == "AWAITING_APPROVAL"
        with reading(desk.tenant_id):
            new = ProposedOperation.objects.filter(proposal__job=job).exclude(operation_key=old.operation_key)
            assert new.count() == 1
    world, proposal = desk.world, desk.world.proposal(job)
    said = f"{old.label} may have been sent before with other content"
    asked_for_two = "waives_approval" in rules or rules == {"four_eyes": False}
    assert (said in proposal.two_because) == asked_for_two
    world.decide(proposal, world.manager)
    assert world.state(job) == ("AWAITING_APPROVAL" if signatures == 2 else "READY_TO_COMMIT")
    if signatures == 2:
        world.decide(proposal, world.second)
    assert world.state(job) == "READY_TO_COMMIT"


def test_a_job_given_up_before_its_send_is_redriven_into_a_new_proposal() -> None:
    with FaultServer(answers(401), OK) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
        desk.act(give_up, case, reason="no credentials")
        assert redrive(desk, job).job_state == "READY_TO_COMMIT"
        desk.run(job)
    assert [o.state for o in desk.sending.operations(job)] == ["WITHDRAWN", "CONFIRMED"]


def test_a_job_of_which_a_part_was_applied_is_not_redriven() -> None:
    from reconciliation.actions.steps import stop_here

    with FaultServer(OK, answers(422)) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("V-1", "V-2", "V-3")
        desk.act(stop_here, case, reason="V-1 can stand alone")
    before = desk.snapshot(job)
    with pytest.raises(NotRedrivable, match="is confirmed: doing it again could do it twice"):
        redrive(desk, job)
    assert desk.snapshot(job) == before
    with (
        pytest.raises(IntegrityError, match="may have been applied"),
        acting(desk.tenant_id),
        connection.cursor() as cursor,
    ):
        cursor.execute(
            "INSERT INTO workflows_journalentry (tenant_id, job_id, sequence, event, from_state, to_state,"
            " actor_kind, actor_id, actor_name, evidence)"
            " SELECT tenant_id, id, version + 1, 'job.redriven', 'FAILED', 'VALIDATED', 'operator', 1, 'x', '{}'"
            " FROM workflows_job WHERE id = %s",
            [job.pk],
        )
    assert desk.snapshot(job) == before


def test_a_late_answer_to_what_was_sent_before_the_redrive_stops_the_new_send_and_asks() -> None:
    """Two people attest that nothing was applied; the job fails and is redriven; then the first answer turns up."""
    with FaultServer(fin, OK) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
        case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
        desk.act(
            confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter(), then="stop"
        )
        desk.answer(second, desk.fresh(case), desk.ben)
        assert desk.sending.job_state(job) == "FAILED"
        assert redrive(desk, job).job_state == "READY_TO_COMMIT"
        old = desk.sending.operations(job)[0]
        with acting(desk.tenant_id):
            locked, operation = lock_job_and_operation(old.pk)
            proofs.take_as_applied(job=locked, operation=operation, receipt_id="R-1", actor=WORKER, now=now())
        desk.run(job)
        assert len(erp.received) == 1
    assert [o.state for o in desk.sending.operations(job)] == ["NOT_APPLIED", "WITHDRAWN"]
    assert desk.sending.job_state(job) == "VALIDATED"
    kinds = [c.kind for c in desk.cases(job, open_only=True)]
    assert kinds == [CaseKind.CONTRADICTED, CaseKind.FACT_CHANGED]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("", "answer it first"),
        ("the change stands", "was answered: the change stands"),
        ("the evidence was mistaken", ""),
    ],
)
def test_evidence_that_it_was_applied_after_all_forbids_a_redrive_until_it_is_refuted(
    answer: str, words: str
) -> None:
    with FaultServer(answers(422)) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job = desk.sending.ready()
        desk.run(job)
    case = desk.happens(
        job,
        "outcome.contradicted",
        operation_id=desk.sending.operation(job).pk,
        proposal=desk.sending.operation(job).proposed.proposal_id,
        finding="applied",
    )
    assert case.kind == CaseKind.CONTRADICTED
    if answer:
        desk.act(record_outcome, case, outcome=answer, evidence="they wrote", source="mail 14:02")
    if words:
        with pytest.raises(NotRedrivable, match=words):
            redrive(desk, job)
        assert desk.sending.job_state(job) == "FAILED"
    else:
        assert redrive(desk, job).job_state == "READY_TO_COMMIT"
