"""Storms: one fault of one receiver, many cases, one incident, one message; and its end."""

from __future__ import annotations

import json
import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.db import IntegrityError, connection

from access.models import TenantEntry
from access.refusals import Refused
from access.tenancy import acting, reading
from console.queries import needs
from dispatch.contracts import Contract, Lookup
from outbox.models import Message
from reconciliation.actions.bulk import plan_bulk
from reconciliation.actions.owning import take
from reconciliation.bulk.selecting import BadFilter, Filters
from reconciliation.bulk.verbs import BulkVerb
from reconciliation.counting import counts
from reconciliation.incidents.joining import ALONE, STORM, Fault, Joined, begin, join, try_lock
from reconciliation.incidents.pages import incident_page
from reconciliation.incidents.sweeping import FIND
from reconciliation.models import Case, EntryState, Incident
from reconciliation.narrowing import Narrowing
from reconciliation.queries import open_cases
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import a_contract, a_keyed_contract, as_owner
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.storm import Bank, finished, in_bulk, incidents, members, sweep
from tests.reconciliation.world import PATIENT, Desk, now
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)


def doubts(desk: Desk, count: int, begin_at: int = 1) -> list[Case]:
    return [desk.unknown(f"V-{begin_at + n}")[1] for n in range(count)]


def told(desk: Desk, event: str) -> list[dict[str, Any]]:
    with reading(desk.tenant_id):
        rows = TenantEntry.objects.filter(event=event).order_by("sequence")
        return [json.loads(e) for e in rows.values_list("evidence", flat=True)]


def listed(desk: Desk, **asked: str) -> list[int]:
    with reading(desk.tenant_id):
        page = open_cases(now=now(), person_id=desk.anna.pk, chosen=Narrowing.read(asked), limit=50)
        return [row.case_id for row in page.rows]


def test_a_storm_is_one_incident_one_row_and_one_message(settings: Any) -> None:
    """Four cases are told of one by one; the fifth is one too many, and from then on there is an incident."""
    settings.EMAIL_HOST = "mail.example.test"
    with FaultServer(*[fin] * 20) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, STORM + 2)
        (incident,) = incidents(desk)
        assert [c.incident_id for c in cases] == [None] * (STORM - 1) + [incident.pk] * 3
        assert (incident.kind, incident.fault) == ("unknown outcome", cases[0].fault)
        assert waits_for_a_sweep(desk)
        swept = sweep(desk)
        assert (swept.begun, swept.announced, swept.joined, swept.closed) == (0, 1, STORM - 1, 0)
        assert not waits_for_a_sweep(desk)
        assert [c.pk for c in members(desk, incident)] == [c.pk for c in cases]
        again = sweep(desk)
        assert (again.announced, again.reopened, again.joined, again.closed) == (0, 0, 0, 0)
        (late,) = doubts(desk, 1, 50)
        assert late.incident_id == incident.pk
    with reading(desk.tenant_id):
        events = Counter(Message.objects.filter(person=desk.anna).values_list("event", flat=True))
        assert events == {"case.opened": STORM - 1, "incident.opened": 1}
        found = counts(desk.anna.pk, now=now())
        queues = {q.name: q for q in needs.queues(desk.world.tenant.slug, now())}
    assert (found.total, found.grouped) == (STORM + 3, STORM + 3)
    assert (queues["incidents"].count, queues["unresolved"].count) == (1, 0)
    assert [e["cases"] for e in told(desk, "incident.opened")] == [STORM + 2]
    everything = [c.pk for c in cases] + [late.pk]
    assert listed(desk) == []
    assert (
        sorted(listed(desk, incident="with")) == sorted(listed(desk, incident=str(incident.pk))) == everything
    )
    desk.act(take, desk.fresh(late))
    assert listed(desk) == [late.pk]


def waits_for_a_sweep(desk: Desk) -> bool:
    """Whether an engine finds something to do there; it must not where nothing is, since it asks every three seconds."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as engine:
        engine.execute("SET ROLE counterfoil_engine")
        return desk.tenant_id in {tenant for tenant, _ in engine.execute(FIND).fetchall()}


def test_what_differs_in_fault_or_time_is_no_storm() -> None:
    with FaultServer(*[fin] * 4, *[answers(500)] * 3, *[fin] * 2) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, 7)
        assert Counter(Counter(c.fault for c in cases).values()) == {4: 1, 3: 1}
        earlier = "opened_at = opened_at - interval '11 minutes' WHERE tenant_id = %s"
        as_owner("reconciliation_case", earlier, [desk.tenant_id])
        doubts(desk, 2, 20)
    assert sweep(desk).begun == 0
    assert incidents(desk) == []


def test_five_that_opened_side_by_side_are_found_by_the_sweep() -> None:
    """None of them saw the others: their transactions overlapped. The incident begins with the first of them."""
    with FaultServer(*[fin] * 8) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, STORM - 1)
        _, last = desk.unknown("V-90")
    with acting(desk.tenant_id):
        Case.objects.update(incident=None)
    as_if_none = incidents(desk)[0]
    with acting(desk.tenant_id):
        Incident.objects.filter(pk=as_if_none.pk).update(closed_at=now() - timedelta(hours=2))
    swept = sweep(desk)
    assert (swept.begun, swept.announced, swept.joined) == (1, 1, STORM)
    incident = incidents(desk)[-1]
    assert incident.began_at == cases[0].opened_at
    assert [c.pk for c in members(desk, incident)] == [*(c.pk for c in cases), last.pk]


def test_one_fault_has_one_open_incident_and_who_comes_second_does_not_wait() -> None:
    """A lock that is tried, and a constraint behind it."""
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    desk.freeze(job := desk.world.job())
    receiver = desk.sending.operations(job)[0].receiver_id
    fault = Fault(desk.tenant_id, receiver, "unknown outcome", "no answer")
    with acting(desk.tenant_id), ThreadPoolExecutor(1) as another:
        assert join(fault, now()) == ALONE
        assert try_lock(fault)
        begin(fault, now(), now())
        assert another.submit(locked_by_another, fault).result(10) is True
    with acting(desk.tenant_id):
        assert join(fault, now()) == Joined(incidents_of(fault), storm=True)
    with pytest.raises(IntegrityError, match="one_open_incident_a_fault"), acting(desk.tenant_id):
        begin(fault, now(), now())


def locked_by_another(fault: Fault) -> bool:
    try:
        with acting(fault.tenant_id):
            return not try_lock(fault)
    finally:
        connection.close()


def incidents_of(fault: Fault) -> Incident | None:
    return fault.incident()


def test_answered_in_bulk_each_by_its_own_evidence_and_the_last_answer_closes_it() -> None:
    """Of six the bank has booked two. Those are proven; the others are sent again with their keys, and each once."""
    bank = Bank(booked={"V-1", "V-3"})
    with bank.door() as erp:
        desk = Desk.make(erp.url, recognising())
        cases = doubts(desk, 6)
        sweep(desk)
        (incident,) = incidents(desk)
        number = str(incident.pk)

        still_down = in_bulk(desk, "look-up", desk.anna, incident=number)
        assert [(e.case_id, e.state) for e in still_down] == [(c.pk, EntryState.DONE) for c in cases]
        assert {e.why.rpartition(". ")[2] for e in still_down} == {"That settles nothing yet."}
        nothing_shows_it = in_bulk(desk, "not-applied", desk.anna, incident=number)
        assert {e.state for e in nothing_shows_it} == {EntryState.REFUSED}
        assert [desk.fresh(c).resolved_at for c in cases] == [None] * 6

        bank.back = True
        looked = in_bulk(desk, "look-up", desk.anna, incident=number)
        proven = [e.case_id for e in looked if e.why.endswith("That settles it.")]
        assert proven == [cases[0].pk, cases[2].pk]
        assert sweep(desk).closed == 0

        for case in cases:
            desk.let_time_pass(case.job_id)
        again = in_bulk(desk, "send-again", desk.anna, incident=number)
        assert [(e.state, e.case_id) for e in again] == [(EntryState.DONE, cases[n].pk) for n in (1, 3, 4, 5)]
        assert sweep(desk).closed == 1
        assert [(e["incident"], e["cases"]) for e in told(desk, "incident.closed")] == [(incident.pk, 6)]
        jobs = jobs_of(desk, cases)
        for job in jobs:
            desk.run(job)
    assert [desk.sending.job_state(job) for job in jobs] == ["CONFIRMED"] * 6
    assert (bank.writes, len(bank.booked)) == (4, 6)
    with reading(desk.tenant_id):
        page = incident_page(incident.pk, frozenset())
    assert (page.row.open, page.row.total, page.offers) == (0, 6, [])
    assert page.answers == [("sent again, same key", 4), ("settled by evidence", 2)]


def test_of_twelve_that_nothing_proves_no_bulk_closes_one() -> None:
    """I1: each verb that many cases, items or jobs can be given at once, by whoever may give it. No case is "done"."""
    with FaultServer(*[fin] * 14) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, 12)
        for case in cases:
            desk.let_time_pass(case.job_id)
        tried: set[str] = set()
        for verb in BulkVerb:
            if verb is BulkVerb.SEND_AGAIN:
                continue  # asks a second person for each; the next test
            for person in (desk.anna, desk.ben, desk.admin):
                try:
                    entries = in_bulk(desk, verb, person)
                except Refused:
                    continue  # not theirs to do, or there is nothing to do it to
                tried.add(verb)
                assert entries
        assert {BulkVerb.NOT_APPLIED, BulkVerb.TAKE, BulkVerb.LOOK_UP} <= tried
        assert len(erp.received) == 12
    assert [desk.fresh(c).resolved_at for c in cases] == [None] * 12
    assert {desk.sending.operation(job).state for job in jobs_of(desk, cases)} == {"UNKNOWN"}


def test_what_needs_a_second_person_is_seconded_in_bulk_by_another_one() -> None:
    """A receiver that recognises no key: each resend is asked for, and another person answers for each of them."""
    with FaultServer(*[fin] * 8) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, STORM)
        sweep(desk)
        number = str(incidents(desk)[0].pk)
        too_early = in_bulk(desk, "send-again", desk.anna, incident=number)
        assert {(e.state, "may still arrive" in e.why) for e in too_early} == {(EntryState.REFUSED, True)}
        for case in cases:
            desk.let_time_pass(case.job_id)
        asked = in_bulk(desk, "send-again", desk.anna, incident=number)
        assert {(e.state, e.why) for e in asked} == {
            (EntryState.DONE, "Asked for. A second person has to agree.")
        }
        own = in_bulk(desk, "second", desk.anna, incident=number)
        assert {e.state for e in own} == {EntryState.REFUSED}
        planned = desk.fresh(cases[0])
        seconded = in_bulk(desk, "second", desk.ben, incident=number)
        assert {e.state for e in seconded} == {EntryState.DONE}
    assert planned.resolved_at is None
    done = [desk.fresh(c) for c in cases]
    assert {(c.resolution, c.resolved_by, c.second_person) for c in done} == {
        ("sent again, same key", desk.anna, desk.ben)
    }


def test_what_was_answered_meanwhile_is_left_alone_and_says_by_whom() -> None:
    with FaultServer(*[fin] * 8) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, 2)
    planned = plan_bulk(
        tenant_id=desk.tenant_id, person_id=desk.ben.pk, verb="take", filters=Filters(), now=now()
    )
    desk.act(take, cases[0])
    entries = {e.case_id: e for e in finished(desk, planned.bulk_id, desk.ben)}
    assert entries[cases[0].pk].state == EntryState.CHANGED
    assert desk.anna.username in entries[cases[0].pk].why
    assert entries[cases[1].pk].state == EntryState.DONE
    assert [desk.fresh(c).assignee for c in cases] == [desk.anna, desk.ben]


def recognising() -> Contract:
    """A receiver that recognises keys for a day and tells what became of one; that it finds nothing proves nothing."""
    lookup = Lookup(path="/operations/{operation_key}", authoritative=True, schedule=(0, 0))
    return a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0, lookup=lookup)


def test_a_late_case_opens_the_incident_again_within_the_hour() -> None:
    with FaultServer(*[fin] * 12) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = doubts(desk, STORM)
        sweep(desk)
        with acting(desk.tenant_id):
            Case.objects.filter(pk__in=[c.pk for c in cases]).update(resolved_at=now(), resolution="by hand")
        assert waits_for_a_sweep(desk)
        assert sweep(desk).closed == 1
        assert not waits_for_a_sweep(desk)
        (late,) = doubts(desk, 1, 50)
        assert late.incident_id is None
        assert waits_for_a_sweep(desk)
        swept = sweep(desk)
    (incident,) = incidents(desk)
    assert (swept.reopened, swept.joined, swept.announced) == (1, 1, 0)
    assert (incident.closed_at, desk.fresh(late).incident_id) == (None, incident.pk)
    assert len(told(desk, "incident.reopened")) == 1


def test_the_page_says_what_can_be_done_and_to_whom_it_is_left(settings: Any) -> None:
    with Bank().door() as erp:
        desk = Desk.make(erp.url, recognising())
        cases = doubts(desk, STORM)
        sweep(desk)
    (incident,) = incidents(desk)
    url = address(desk, "incident", incident.pk)
    for person in (desk.anna, desk.admin, desk.auditor, desk.world.submitter):
        html = html_of(as_person(person).get(url))
        assert f"<b>{STORM}</b> of {STORM}" in html
        assert ("Only an admin may do this." in html) == (person != desk.admin)
        assert ("Only an operator may do this." in html) == (person != desk.anna)
    queue = html_of(as_person(desk.anna).get(address(desk, "cases")))
    assert incident.label in queue
    assert cases[0].label not in queue
    assert incident.label in html_of(as_person(desk.anna).get(address(desk, "case", cases[0].pk)))
    assert incident.label in html_of(as_person(desk.anna).get(address(desk, "incidents")))
    other = Desk.make("http://127.0.0.1:9", a_contract())
    assert as_person(other.anna).get(address(other, "incident", incident.pk)).status_code == 404
    paused = as_person(desk.admin).post(
        address(desk, "receiver-pause", incident.receiver_id),
        {"reason": "it is down", "incident": incident.pk},
    )
    assert paused.headers["Location"] == url
    assert "it is down" in html_of(as_person(desk.anna).get(url))
    with reading(desk.tenant_id):
        lines = [line.what for line in incident_page(incident.pk, frozenset()).lines]
    assert "The incident was opened" in lines
    assert "ERP was paused: it is down" in lines


def test_what_chooses_jobs_does_not_choose_by_incident() -> None:
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    with pytest.raises(BadFilter, match="only cases are chosen by receiver or incident"):
        in_bulk(desk, "give-up", desk.anna, incident="1")
    with pytest.raises(BadFilter, match="write it as INC-12"):
        in_bulk(desk, "look-up", desk.anna, incident="x")
    with pytest.raises(BadFilter, match="cases are chosen by"):
        in_bulk(desk, "look-up", desk.anna, step="x")


def jobs_of(desk: Desk, cases: list[Case]) -> list[Job]:
    with reading(desk.tenant_id):
        found = Job.objects.in_bulk([c.job_id for c in cases])
        return [found[c.job_id] for c in cases]
