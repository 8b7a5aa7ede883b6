"""What a line does to an operation, from a send whose outcome nobody knows to an ended job: the real machine, real rows."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from access.tenancy import reading
from dispatch.models import Observation
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.seconding import second
from reconciliation.kinds import VerbName
from reconciliation.models import CaseKind
from statements.matching import effects, running
from statements.matching.models import Finding, MatchRun
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import a_contract, as_owner, receipt
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.world import PATIENT, Desk, a_letter
from tests.statements.matching.ledger import Ledger
from tests.statements.shelf import Shelf

pytestmark = pytest.mark.django_db(transaction=True)
PAID = {"amount": "250.00", "currency": "EUR"}


def test_a_line_with_our_key_answers_what_became_of_a_lost_send() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", **PAID)
    ledger = Ledger.at(desk)
    operation = desk.sending.operation(job)
    _, (line,) = ledger.statement([{"reference": operation.operation_key.upper(), "receivers_id": "B-9"}])
    ledger.walk()
    assert ledger.findings() == [(line, operation.pk, "applied")]
    assert desk.sending.operation(job).state == "UNKNOWN"
    ledger.take()

    settled = desk.sending.operation(job)
    assert (settled.state, settled.receipt_id, desk.sending.job_state(job)) == (
        "CONFIRMED",
        "B-9",
        "CONFIRMED",
    )
    assert desk.fresh(case).resolution == "settled by evidence"
    with reading(desk.tenant_id):
        seen = Observation.objects.get(operation=operation, kind="statement line")
        effect = Finding.objects.get().effect
    kept = json.loads(seen.detail)
    assert (seen.proves, seen.finding, effect) == (True, "applied", "applied")
    assert (kept["row"], kept["rule"], len(kept["file"]), len(kept["fingerprint"])) == (2, "our key", 64, 64)
    assert kept["compared"][1] == ["amount", "25000", "25000"]
    ledger.take()
    assert desk.events(job).count("operation.settled") == 1


def test_a_line_that_differs_takes_the_confirmation_away_or_contradicts_what_has_ended() -> None:
    with FaultServer(answers(200, receipt("INV-1")), fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        ended = desk.sending.ready("INV-1", **PAID)
        desk.run(ended)
        open_job, _ = desk.unknown("INV-2", **PAID)
    ledger = Ledger.at(desk)
    keys = [desk.sending.operation(job).operation_key for job in (ended, open_job)]
    ledger.statement([{"reference": key, "amount": 25001} for key in keys])
    ledger.walk()
    ledger.take()
    assert desk.sending.job_state(ended) == "CONFIRMED"
    assert desk.case(ended).kind == CaseKind.CONTRADICTED
    assert (desk.sending.operation(open_job).state, desk.case(open_job).kind) == ("CONFLICTED", "conflicted")
    with reading(desk.tenant_id):
        told = Observation.objects.get(operation__job=open_job, kind="statement line").summary
    assert (
        told
        == f"row 3 of STMT-{ledger.last} names its key, and says amount EUR 250.01 where EUR 250.00 was approved"
    )


def test_a_line_for_what_was_settled_as_not_applied_asks_a_person() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, _ = desk.unknown("INV-1", **PAID)
    operation = desk.sending.operation(job)
    as_owner(
        "dispatch_operation", "state = 'NOT_APPLIED', version = version + 1 WHERE id = %s", [operation.pk]
    )
    ledger = Ledger.at(desk)
    ledger.statement([{"reference": operation.operation_key}])
    ledger.walk()
    ledger.take()
    assert desk.sending.operation(job).state == "NOT_APPLIED"
    assert desk.case(job, CaseKind.CONTRADICTED).resolved_at is None


def test_a_line_for_what_two_people_settled_as_not_applied_contradicts_them_and_moves_nothing() -> None:
    """I5: the day after, the statement shows the payment. Their answer can still be read, and a case asks."""
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", **PAID)
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    desk.answer(second, desk.fresh(case), desk.ben)
    before = desk.sending.operation(job)
    assert (before.state, desk.sending.job_state(job)) == ("NOT_APPLIED", "FAILED")
    ledger = Ledger.at(desk)
    _, (line,) = ledger.statement([{"reference": before.operation_key}])
    ledger.walk()
    ledger.take()
    assert ledger.matches() == [(line, before.pk, 0)]
    assert (desk.sending.operation(job).state, desk.sending.job_state(job)) == ("NOT_APPLIED", "FAILED")
    (asked,) = desk.cases(job, open_only=True)
    assert asked.kind == CaseKind.CONTRADICTED
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by, closed.second_person) == (
        "not applied",
        desk.anna,
        desk.ben,
    )
    assert "They wrote so." in [e.summary for e in desk.evidence(closed)]


def test_an_operation_that_is_being_sent_is_left_for_the_next_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sender is between its first byte and the answer; the line is there already."""
    monkeypatch.setattr(effects, "TURN_SECONDS", 60.0)
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, _ = desk.unknown("INV-1", **PAID)
    operation = desk.sending.operation(job)
    ledger = Ledger.at(desk)
    ledger.statement([{"reference": operation.operation_key}])
    ledger.walk()
    as_owner("dispatch_submission", "closed_at = NULL, outcome = '' WHERE operation_id = %s", [operation.pk])
    assert effects.turn(desk.tenant_id, 0, "w") is False
    assert desk.sending.operation(job).state == "UNKNOWN"
    as_owner(
        "dispatch_submission",
        "closed_at = now(), outcome = 'unknown' WHERE operation_id = %s",
        [operation.pk],
    )
    ledger.take()
    assert desk.sending.operation(job).state == "CONFIRMED"


def test_a_line_that_cannot_be_taken_holds_up_none_of_those_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its operation was changed behind our back to what no line can be compared with; the turn says so when it is over."""
    monkeypatch.setattr(effects, "TURN_SECONDS", 60.0)
    with FaultServer(fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        jobs = [desk.unknown(f"INV-{n}", **PAID)[0] for n in range(2)]
    first, second = (desk.sending.operation(job) for job in jobs)
    ledger = Ledger.at(desk)
    ledger.statement([{"reference": first.operation_key}, {"reference": second.operation_key}])
    ledger.walk()
    as_owner("statements_finding", "compared = 'not JSON' WHERE operation_id = %s", [first.pk])
    with pytest.raises(ValueError, match="Expecting value"):
        effects.turn(desk.tenant_id, 0, "w")
    assert [desk.sending.operation(job).state for job in jobs] == ["UNKNOWN", "CONFIRMED"]


def test_no_line_proves_nothing() -> None:
    """I7: a statement with one total for three payments, and one that ends the day before. Every case stays open.

    The question of each says which days of which accounts the statements cover, and that a line that is not there proves
    nothing.
    """
    with FaultServer(fin, fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        doubts = [desk.unknown(f"INV-{n}", **PAID) for n in range(3)]
    ledger, yesterday = Ledger.at(desk), timezone.now().date() - timedelta(days=1)
    ledger.statement([{"amount": 75000, "text": "BATCH 3 ITEMS"}, {"amount": 1, "reference": "INV-1"}])
    for first, last in ((9, 5), (4, 0), (40, 20)):
        days: dict[str, Any] = {
            "first": yesterday - timedelta(days=first),
            "last": yesterday - timedelta(days=last),
        }
        ledger.statement([{"amount": first, "booked_on": days["last"]}], account="0010", **days)
    before = [desk.snapshot(job) for job, _ in doubts]
    ledger.walk()
    ledger.take()
    assert [desk.snapshot(job) for job, _ in doubts] == before
    spans = [
        f"account 0010 from {yesterday - timedelta(days=a):%-d %b %Y} to {yesterday - timedelta(days=b):%-d %b %Y}"
        for a, b in ((40, 20), (9, 0))
    ]
    said = f"applied cover {'; '.join(spans)}. That no line is there proves nothing."
    for _, case in doubts:
        assert desk.fresh(case).resolved_at is None
        assert said in desk.verb(case, VerbName.MATCH_LINE).sentence
        assert said in html_of(as_person(desk.anna).get(address(desk, "case-match", case.pk)))


def test_lines_are_matched_by_workers_once_their_statement_is_applied() -> None:
    """From the file to the confirmed job, with a worker that dies after the first batch."""
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, _ = desk.unknown("INV-1", **PAID)
    operation = desk.sending.operation(job)
    shelf = Shelf(desk.world.tenant, desk.anna, operation.receiver, account="")
    row = f"2026-12-01;-250,00;{operation.operation_key}\n"
    statement_id = shelf.read(f"Date;Amount;Reference\n2026-12-01;-1,00;other\n{row}".encode())
    with reading(desk.tenant_id):
        assert not MatchRun.objects.exists()
    shelf.apply(statement_id)
    with reading(desk.tenant_id):
        run = MatchRun.objects.get()
    assert (run.statement_id, run.asked_by, run.to_look_at) == (statement_id, desk.anna, 6)

    def lapse() -> None:
        as_owner("statements_matchrun", "worked_until = now() - interval '1 s' WHERE id = %s", [run.pk])

    found = f"SELECT id FROM ({running.FIND}) due WHERE tenant_id = %s"
    ledger = Ledger.at(desk)
    assert ledger.owner.execute(found, [desk.tenant_id]).fetchall() == [(run.pk,)]
    as_owner(
        "statements_matchrun",
        "worked_by = 'dead', worked_until = now() + interval '9 min' WHERE id = %s",
        [run.pk],
    )
    running.step(desk.tenant_id, run.pk, "dead", lines=1)
    assert running.turn(desk.tenant_id, run.pk, "w2") is False, "the first still holds it"
    lapse()
    while running.turn(desk.tenant_id, run.pk, "w2"):
        pass
    with reading(desk.tenant_id):
        run = MatchRun.objects.get()
    assert (run.looked_at, run.taken, run.ended_at is not None) == (6, 1, True)
    assert ledger.owner.execute(found, [desk.tenant_id]).fetchall() == []
    ledger.take()
    assert desk.sending.job_state(job) == "CONFIRMED"
