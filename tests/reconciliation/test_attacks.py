"""What people could do to a case at each other's backs: read as an attacker would, and as two people in one instant would."""

from __future__ import annotations

import json
import os
import re
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event
from typing import Any

import psycopg
import pytest
from django.db import connection

from access.models import Person
from access.tenancy import reading
from approvals import canonical
from dispatch.models import Observation
from dispatch.states import OperationState
from reconciliation.actions.bulk import confirm_bulk, plan_bulk
from reconciliation.actions.comparing import DoesNotMatch
from reconciliation.actions.matching import match_line
from reconciliation.actions.outcomes import accept_conflict, confirm_not_applied, look_up
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.actions.seconding import decline, second
from reconciliation.actions.working import NotAllowedNow
from reconciliation.bulk import working
from reconciliation.bulk.selecting import Filters
from reconciliation.bulk.taking_turns import Turns
from reconciliation.kinds import VerbName
from reconciliation.models import BulkEntry, CaseKind
from statements.matching.actions.matching import unmatch
from statements.matching.models import Match
from tests.dispatch.faults import FaultServer, answers, fin, read_all
from tests.dispatch.world import RECEIPT, a_contract, a_lookup_contract, as_json
from tests.reconciliation.pages import html_of, post
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt
from tests.statements.matching.ledger import Ledger
from tests.support import at_once
from workflows.actions.hold import hold_job

pytestmark = pytest.mark.django_db(transaction=True)
PAID: dict[str, Any] = {"amount": "250.00", "currency": "EUR"}
SECRET = "password=hunter2hunter2"


def did(limit: str) -> Any:
    return answers(200, as_json({**RECEIPT, "fields": {"limit": limit}}))


def test_what_the_receiver_says_since_is_not_let_stand_with_what_was_seen() -> None:
    """Anna asks Ben to let 1.00 stand; then a look-up says 2.00. Neither Ben's yes nor Anna's old page is about that."""
    with FaultServer(did("1.00"), did("2.00")) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(timeouts=PATIENT, proves_after=None))
        job, case = desk.unknown()
        seen = desk.page(case).difference
        assert seen == "limit: 4800.00 was approved, 1.00 was done"
        desk.act(accept_conflict, case, reason="1.00 is fine", difference=seen)
        desk.act(look_up, desk.fresh(case), desk.ben)
    before = desk.snapshot(job)
    with pytest.raises(
        NotAllowedNow, match=r"something else by now: limit: 4800.00 was approved, 2.00 was done"
    ):
        desk.answer(second, desk.fresh(case), desk.ben)
    assert desk.snapshot(job) == before
    desk.answer(decline, desk.fresh(case), desk.ben, reason="it is 2.00")
    case = desk.fresh(case)
    late = post(desk, desk.anna, "case-accept", case, reason="1.00 is fine", difference=seen)
    assert (late.status_code, b"2.00 was done" in late.content) == (409, True)
    # What is shown beside it is what the form now says, so that it can be asked for all the same.
    (now_seen,) = re.findall(r'name="difference" value="([^"]+)"', html_of(late))
    assert now_seen == desk.page(case).difference
    again = post(desk, desk.anna, "case-accept", case, reason="so be it", difference=now_seen)
    assert again.status_code == 302
    done = desk.answer(second, desk.fresh(case), desk.ben)
    assert (done.resolution, done.job_state) == ("difference accepted", "CONFIRMED")


def test_one_receipt_put_to_two_operations_in_one_instant_confirms_one() -> None:
    """Anna and Ben each hold the same receipt of two payments to one payee. Each locks another job."""
    with FaultServer(*[fin] * 6) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        pairs = [(desk.unknown(f"A-{n}")[1], desk.unknown(f"B-{n}")[1]) for n in range(3)]
    for number, (one, other) in enumerate(pairs):
        read = {"receipt_id": f"R-{number}", "obtained_at": now()}
        first, its_twin = (receipt(record=f"{side}-{number}", **read) for side in "AB")
        answered = at_once(
            partial(desk.act, confirm_with_receipt, one, receipt=first),
            partial(desk.act, confirm_with_receipt, other, desk.ben, receipt=its_twin),
        )
        (refused,) = [a for a in answered if isinstance(a, DoesNotMatch)]
        assert (refused.field, "already" in str(refused)) == ("receipt_id", True)
        assert [desk.fresh(c).resolved_at is None for c in (one, other)].count(True) == 1


def test_not_applied_and_sent_again_is_held_up_by_what_holds_up_any_send() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, opened = desk.unknown()
        case = desk.once_allowed(opened, VerbName.CONFIRM_NOT_APPLIED)
        given: dict[str, Any] = {"evidence": "They wrote so.", "source": "mail", "then": "send again"}
        desk.act(confirm_not_applied, case, paper=a_letter(), **given)
        hold_job(
            tenant_id=desk.tenant_id,
            job_id=job.pk,
            person_id=desk.anna.pk,
            reason="the payee is odd",
            now=now(),
        )
        before = desk.snapshot(job)
        with pytest.raises(NotAllowedNow, match=r"It cannot be sent again: anna\S+ holds"):
            desk.answer(second, desk.fresh(case), desk.ben)
        assert desk.snapshot(job) == before


def test_no_secret_that_a_person_writes_is_kept_with_a_receipt_or_a_line() -> None:
    with FaultServer(fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        (_, held), (_, booked) = desk.unknown("V-1"), desk.unknown("INV-1", **PAID)
    desk.act(confirm_with_receipt, held, receipt=receipt(obtained_from=f"the portal, {SECRET}"))
    _, (line,) = Ledger.at(desk).statement([{}])
    desk.act(match_line, booked, lines=[line], reason=f"found with {SECRET}")
    with reading(desk.tenant_id):
        match = Match.objects.get()
        kept = [match.reason, *Observation.objects.values_list("summary", flat=True)]
        kept += list(Observation.objects.values_list("detail", flat=True))
    unmatch(
        tenant_id=desk.tenant_id, match_id=match.pk, person_id=desk.anna.pk, reason=f"no: {SECRET}", now=now()
    )
    with reading(desk.tenant_id):
        kept += list(Observation.objects.values_list("summary", flat=True))
    assert not [text for text in kept if "hunter2" in text]
    assert [text for text in kept if "[hidden]" in text]


def test_a_line_that_is_taken_away_leaves_what_follows_from_it() -> None:
    """Its job still goes on. Meanwhile the same record is another operation's; and, of another, it was compensated."""
    with FaultServer(fin, fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job = desk.sending.ready("INV-1", "V-2", **PAID)
        desk.run(job)
        first = desk.sending.operations(job)[0]
        case = desk.case(job)
        _, (line,) = Ledger.at(desk).statement([{}])
        desk.act(match_line, case, lines=[line])
        assert desk.sending.operations(job)[0].state == OperationState.CONFIRMED
        desk.unknown("INV-1", **PAID)
    with reading(desk.tenant_id):
        match = Match.objects.get(operation=first)
    said = unmatch(
        tenant_id=desk.tenant_id, match_id=match.pk, person_id=desk.anna.pk, reason="another's", now=now()
    )
    assert "stays as it was" in said
    assert desk.sending.operations(job)[0].state == OperationState.CONFIRMED
    assert desk.case(job, CaseKind.CONTRADICTED).resolved_at is None


def test_a_job_that_was_late_can_also_be_ended_from_its_case() -> None:
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    case = desk.happens(desk.world.job(), "deadline.passed")
    offered = {v.name for v in desk.page(case).verbs}
    assert {VerbName.RELEASE, VerbName.GIVE_UP, VerbName.CANCEL} <= offered


def test_bulks_that_wait_for_silent_receivers_take_one_thread_of_a_process() -> None:
    """Two bulks of a storm ask a receiver that does not answer: the second leaves its thread to the jobs of others.

    Once the first has had its turn the second is next, whoever is called; what waits no more is forgotten.
    """
    asked, answer = Event(), Event()

    def hangs(connection: socket.socket) -> bytes:
        raw = read_all(connection)
        asked.set()
        answer.wait(30)
        connection.close()
        return raw

    with FaultServer(fin, fin, fin, hangs) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(timeouts=PATIENT, proves_after=None))
        desk.unknown()
        first, other = (_looked_up_in_bulk(desk, person) for person in (desk.anna, desk.ben))
        with ThreadPoolExecutor(1) as pool:
            one = pool.submit(_turn, desk, first)
            assert asked.wait(30)
            assert _turn(desk, other) is False
            answer.set()
            assert one.result() is True
        assert _turn(desk, first) is False, "done, or the other one's turn"
        with reading(desk.tenant_id):
            assert list(BulkEntry.objects.order_by("pk").values_list("state", flat=True)) == [
                "done",
                "waiting",
            ]
        assert _turn(desk, other) is True
    turns = Turns()
    assert turns.begins(1, 0.0)
    assert not turns.begins(2, 1.0)
    turns.ends()
    assert not turns.begins(1, 2.0), "the other one waits"
    assert turns.begins(1, 12.5), "it has not come again, so nobody waits for it"


def _looked_up_in_bulk(desk: Desk, person: Person) -> int:
    planned = plan_bulk(
        tenant_id=desk.tenant_id, person_id=person.pk, verb="look-up", filters=Filters(), now=now()
    )
    confirm_bulk(
        tenant_id=desk.tenant_id, bulk_id=planned.bulk_id, person_id=person.pk, reason="a storm", attempts=None, now=now()
    )  # fmt: skip
    return planned.bulk_id


def _turn(desk: Desk, bulk_id: int) -> bool:
    try:
        return working.turn(desk.tenant_id, bulk_id, "w1")
    finally:
        connection.close()


def test_what_was_asked_for_stands_in_the_journal() -> None:
    """As digests: whoever changed the request in the tables afterwards would be found out."""
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, opened = desk.unknown()
    case = desk.once_allowed(opened, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    request = desk.requests(case)[-1]
    evidence = desk.world.evidence(job, "case.second_asked")
    assert evidence["reason_digest"] == canonical.sha256("They wrote so.")
    assert evidence["details_digest"] == canonical.sha256(json.dumps(request.details, sort_keys=True))


def test_a_look_up_in_bulk_waits_for_whoever_works_on_the_job() -> None:
    """Somebody holds the job for longer than a person waits. The entry keeps its turn, and is no refusal."""
    with FaultServer(fin, fin, fin, fin) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(timeouts=PATIENT, proves_after=None))
        job, _ = desk.unknown()
        bulk_id = _looked_up_in_bulk(desk, desk.anna)
        with psycopg.connect(os.environ["DATABASE_URL"]) as holder:
            holder.execute("SELECT FROM workflows_job WHERE id = %s FOR UPDATE", [job.pk])
            assert _turn(desk, bulk_id) is True
            assert _states() == ["waiting"]
        _turn(desk, bulk_id)
        assert _states() == ["done"]


def _states() -> list[str]:
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        return [state for (state,) in owner.execute("SELECT state FROM reconciliation_bulkentry ORDER BY id")]
