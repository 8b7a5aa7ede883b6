"""Answering a case with a line of a statement: alone where it is exact, with a second person where it is not."""

from __future__ import annotations

import re

import psycopg
import pytest
from django.utils import timezone

from access.tenancy import reading
from dispatch import in_part
from reconciliation.actions.matching import match_line
from reconciliation.actions.seconding import second
from reconciliation.actions.working import EvidenceMissing, NotAllowedNow, StaleCase
from reconciliation.desk import asked_for
from reconciliation.kinds import VerbName
from statements.matching import completeness, exporting, making
from statements.matching.actions.matching import set_matching, unmatch
from statements.matching.making import DoNotBelongTogether, LineClaimed, Pair
from statements.matching.models import Finding, Match
from statements.matching.settings import Settings
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract
from tests.reconciliation.pages import HOSTILE, address, as_person, post
from tests.reconciliation.world import PATIENT, Desk
from tests.statements.matching.ledger import Ledger
from tests.support import at_once
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
PAID = {"amount": "250.00", "currency": "EUR"}


def test_a_line_is_chosen_on_the_cases_page_and_confirms_the_operation() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", **PAID)
    assert desk.verb(case, VerbName.MATCH_LINE).why_not == "No statement of ERP is applied."
    ledger, today = Ledger.at(desk), timezone.now().date()
    _, (line, other) = ledger.statement(
        [{"booked_on": today, "text": HOSTILE}, {"booked_on": today, "amount": 7}]
    )
    assert desk.verb(case, VerbName.MATCH_LINE).allowed
    shown = as_person(desk.anna).get(address(desk, "case-match", case.pk)).content.decode()
    assert "amount equal" in shown
    assert "<img" not in shown
    assert re.findall(r'name="lines" value="([^"]+)"', shown) == [str(line)]
    refused = post(desk, desk.anna, "case-match", case, lines=str(other))
    assert (refused.status_code, b"not offered any more" in refused.content) == (422, True)
    assert post(desk, desk.anna, "case-match", case, lines=str(line)).status_code == 302
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by) == ("applied, by statement line", desk.anna)
    assert (desk.sending.operation(job).state, desk.sending.job_state(job)) == ("CONFIRMED", "CONFIRMED")
    with pytest.raises(StaleCase):
        desk.act(match_line, case, lines=[line])


def test_amounts_that_differ_inside_the_band_need_a_second_person() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", **PAID)
    ledger = Ledger.at(desk)
    today = timezone.now().date()
    _, (near, far) = ledger.statement([{"booked_on": today, "amount": a} for a in (25002, 25003)])
    with pytest.raises(DoNotBelongTogether):
        desk.act(match_line, case, lines=[near], reason="bank fee")
    set_matching(
        tenant_id=desk.tenant_id, receiver_id=ledger.receiver_id, settings=Settings(tolerance=2),
        person_id=desk.admin.pk, now=timezone.now(),
    )  # fmt: skip
    with pytest.raises(DoNotBelongTogether):
        desk.act(match_line, case, lines=[far], reason="bank fee")
    with pytest.raises(EvidenceMissing, match="say what that is, of fee, rounding") as unsaid:
        desk.act(match_line, case, lines=[near], reason="bank fee")
    assert unsaid.value.field == "apart_as"
    with pytest.raises(EvidenceMissing, match=r"EUR 0\.02 apart: say why"):
        desk.act(match_line, case, lines=[near], apart_as="fee")
    refused = post(desk, desk.anna, "case-match", case, lines=str(near), apart_as="fee")
    assert (refused.status_code, b'id="f-reason_error"' in refused.content) == (422, True)
    asked = desk.act(match_line, case, lines=[near], reason="bank fee", apart_as="fee")
    with reading(desk.tenant_id):
        said = asked_for(desk.page(case, desk.ben))
    assert said[-2:] == [("Difference", "The amounts are EUR 0.02 apart"), ("Booked as", "fee")]
    assert asked.request_id is not None
    assert (desk.sending.operation(job).state, ledger.matches()) == ("UNKNOWN", [])
    desk.answer(second, desk.fresh(case), desk.ben)
    with reading(desk.tenant_id):
        match = Match.objects.get()
    assert (match.within_tolerance, match.made_by, match.second, match.allocated) == (
        True,
        desk.anna,
        desk.ben,
        25000,
    )
    assert (match.apart, match.apart_as, match.reason) == (2, "fee", "bank fee")
    assert desk.sending.operation(job).state == "CONFIRMED"
    page = as_person(desk.anna).get(address(desk, "statement-line", near)).content.decode()
    assert "EUR 0.02 more than was approved" in page
    assert "two people have booked the difference as a fee" in page


def test_lines_that_come_to_it_but_for_a_fee_are_offered_and_the_fee_is_booked() -> None:
    """Two instalments, of which the bank has kept thirty cents. Anna finds them on the case, Ben agrees; taking it back undoes it."""
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", **PAID)
    ledger, today = Ledger.at(desk), timezone.now().date()
    set_matching(
        tenant_id=desk.tenant_id, receiver_id=ledger.receiver_id, settings=Settings(tolerance=50),
        person_id=desk.admin.pk, now=timezone.now(),
    )  # fmt: skip
    statement, (first, rest, small, tiny) = ledger.statement(
        [{"booked_on": today, "amount": a} for a in (10000, 14970, 31, 10)], first=str(today), last=str(today)
    )
    shown = as_person(desk.anna).get(address(desk, "case-match", case.pk)).content.decode()
    assert "2 lines come to it but for EUR 0.30" in shown
    with reading(desk.tenant_id), pytest.raises(DoNotBelongTogether, match="no more than the difference"):
        making.apart([Pair(n, job, desk.sending.operation(job)) for n in (first, rest, small, tiny)])
    post(
        desk,
        desk.anna,
        "case-match",
        case,
        lines=f"{first},{rest}",
        reason="kept by the bank",
        apart_as="fee",
    )
    desk.answer(second, desk.fresh(case), desk.ben)
    with reading(desk.tenant_id):
        made = list(
            Match.objects.order_by("operation_place").values_list("line_id", "allocated", "apart", "apart_as")
        )
        side = completeness.of_statement(statement).side
        scope = completeness.of_statement(statement).scope
    assert made == [(first, 10000, -30, "fee"), (rest, 14970, 0, "fee")]
    assert desk.sending.job_state(job) == "CONFIRMED"
    assert side is not None
    assert side.explained
    assert [(p.what, p.count, str(p.amount)) for p in side.parts] == [
        ("lines that no operation claims", 2, "0.41"), ("difference booked as fee", 1, "-0.30"),
    ]  # fmt: skip
    assert scope is not None
    saved = "".join(exporting.differences(desk.tenant_id, scope))
    assert "difference that two people have booked,-0.30,EUR" in saved
    assert "fee: kept by the bank" in saved
    unmatch(
        tenant_id=desk.tenant_id, match_id=first_match(desk), person_id=desk.anna.pk,
        reason="it was another invoice", now=timezone.now(),
    )  # fmt: skip
    with reading(desk.tenant_id):
        side = completeness.of_statement(statement).side
    assert side is not None
    assert [p.what for p in side.parts if "difference" in p.what] == []


def first_match(desk: Desk) -> int:
    with reading(desk.tenant_id):
        return int(Match.objects.order_by("pk").values_list("pk", flat=True)[0])


def test_of_two_cases_that_want_one_line_one_gets_it() -> None:
    """Anna and Ben each answer a case of their own with the same line, in the same instant."""
    with FaultServer(*[fin] * 6) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        rounds = [(desk.unknown(f"A-{n}", **PAID), desk.unknown(f"B-{n}", **PAID)) for n in range(3)]
    ledger = Ledger.at(desk)
    for (job, case), (other_job, other) in rounds:
        _, (line,) = ledger.statement([{}])
        answers = at_once(
            lambda case=case, line=line: desk.act(match_line, case, lines=[line]),
            lambda case=other, line=line: desk.act(match_line, case, desk.ben, lines=[line]),
        )
        (loser,) = [a for a in answers if isinstance(a, LineClaimed)]
        assert re.match(r"(anna|ben)\.\S+ has matched row 2 of STMT-\d+ with CF-", str(loser))
        states = [desk.sending.operation(one).state for one in (job, other_job)]
        assert sorted(states) == ["CONFIRMED", "UNKNOWN"]
        assert [desk.fresh(c).resolved_at is None for c in (case, other)].count(True) == 1


def test_without_an_amount_there_is_nothing_to_compare() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        _, case = desk.unknown("INV-1")
    _, (line,) = Ledger.at(desk).statement([{}])
    with pytest.raises(NotAllowedNow, match="No amount was approved"):
        desk.act(match_line, case, lines=[line])


def two_instalments(desk: Desk, amounts: tuple[int, ...] = (10000, 15000)) -> tuple[Ledger, list[int]]:
    """A statement for each, as they come on two days."""
    ledger, today = Ledger.at(desk), timezone.now().date()
    lines = []
    for amount in amounts:
        _, (line,) = ledger.statement(
            [{"amount": amount, "reference": "INV-1", "booked_on": today}], first=str(today), last=str(today)
        )
        lines.append(line)
    return ledger, lines


def parts_shown(desk: Desk, ledger: Ledger) -> list[tuple[str, str]]:
    with reading(desk.tenant_id):
        today = timezone.now().date()
        period = completeness.of_period(ledger.receiver_id, first=today, last=today)
    assert period is not None
    (side,) = period.sides
    assert side.explained
    return [(p.what, str(p.amount)) for p in side.parts]


def test_a_line_that_is_a_part_leaves_the_rest_open_until_another_comes_to_it() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", **PAID)
    ledger, (first, rest) = two_instalments(desk)
    desk.let_time_pass(job.pk)
    shown = as_person(desk.anna).get(address(desk, "case-match", case.pk)).content.decode()
    assert "reference equal, EUR 150.00 less" in shown
    with pytest.raises(DoNotBelongTogether, match="more apart"):
        desk.act(match_line, case, lines=[first])
    assert post(desk, desk.anna, "case-match", case, lines=str(first), part="on").status_code == 302
    assert (desk.sending.operation(job).state, desk.fresh(case).resolved_at) == ("UNKNOWN", None)
    left = "EUR 100.00 of EUR 250.00 is matched, by 1 line; EUR 150.00 is left."
    assert desk.evidence(case)[-1].summary.endswith(f"is a part of it. {left}")
    assert left in as_person(desk.anna).get(address(desk, "case", case.pk)).content.decode()
    assert left in as_person(desk.anna).get(address(desk, "statement-line", first)).content.decode()
    with reading(desk.tenant_id):
        assert list(Finding.objects.values_list("line_id", "effect")) == [(first, "a part")]
    offered = as_person(desk.anna).get(address(desk, "case-match", case.pk)).content.decode()
    assert "reference equal, amount equal" in offered, "of what is left"
    for verb in (VerbName.CONFIRM_NOT_APPLIED, VerbName.RESUBMIT):
        assert (
            desk.verb(desk.fresh(case), verb).why_not
            == f"{left} Take those lines back first, if they are not it."
        )
    assert parts_shown(desk, ledger) == [
        ("line that no operation claims", "150.00"), ("line of an operation that is not settled", "100.00"),
    ]  # fmt: skip
    desk.act(match_line, desk.fresh(case), desk.ben, lines=[rest], reason="the second instalment")
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by) == ("applied, by statement line", desk.ben)
    assert (desk.sending.operation(job).state, desk.sending.job_state(job)) == ("CONFIRMED", "CONFIRMED")
    with reading(desk.tenant_id):
        rows = list(
            Match.objects.order_by("pk").values_list("line_id", "operation_place", "allocated", "partial")
        )
        assert Match.objects.values("together").distinct().count() == 1
    assert rows == [(first, 0, 10000, True), (rest, 1, 15000, True)]
    assert parts_shown(desk, ledger) == []


def test_of_parts_each_is_taken_back_alone_and_what_they_confirmed_is_in_doubt_again() -> None:
    with FaultServer(fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job = desk.sending.ready("INV-1", "INV-2", **PAID, independent=True)
        desk.run(job)
        case = next(c for c in desk.cases(job) if c.operation_id == desk.sending.operations(job)[0].pk)
    _, (first, rest) = two_instalments(desk)
    desk.act(match_line, case, lines=[first], part=True)
    assert done_in_part(desk, job) == [True, False]
    taken_back(desk, first)
    assert done_in_part(desk, job) == [False, False]
    assert desk.sending.operations(job)[0].state == "UNKNOWN"
    assert desk.verb(desk.fresh(case), VerbName.MATCH_LINE).sentence.startswith("Records that")
    desk.act(match_line, case, lines=[rest], part=True)
    desk.act(match_line, case, lines=[first], part=True)
    assert desk.sending.operations(job)[0].state == "CONFIRMED"
    said = taken_back(desk, rest)
    assert "is of unknown outcome again" in said
    assert desk.sending.operations(job)[0].state == "UNKNOWN"
    again = next(c for c in desk.cases(job, open_only=True) if c.operation_id == case.operation_id)
    assert desk.verb(again, VerbName.MATCH_LINE).sentence.startswith(
        "EUR 100.00 of EUR 250.00 is matched, by 1 line"
    )
    desk.act(match_line, again, lines=[rest], part=True)
    assert desk.sending.operations(job)[0].state == "CONFIRMED"


def done_in_part(desk: Desk, job: Job) -> list[bool]:
    with reading(desk.tenant_id):
        return [in_part.is_done_in_part(operation) for operation in desk.sending.operations(job)]


def taken_back(desk: Desk, line: int) -> str:
    with reading(desk.tenant_id):
        match = Match.objects.get(line=line, unmade_at__isnull=True)
    return unmatch(
        tenant_id=desk.tenant_id,
        match_id=match.pk,
        person_id=desk.anna.pk,
        reason="not this one",
        now=timezone.now(),
    )


def test_what_is_no_part_is_refused_and_nothing_changes() -> None:
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        _, case = desk.unknown("INV-1", **PAID)
    ledger, (whole, more, first, rest) = two_instalments(desk, (25000, 25001, 10000, 15001))
    with pytest.raises(DoNotBelongTogether, match=r"no part of \S+: match it whole"):
        desk.act(match_line, case, lines=[whole], part=True)
    with pytest.raises(DoNotBelongTogether, match=r"EUR 250\.01, and of \S+ EUR 250\.00 is left"):
        desk.act(match_line, case, lines=[more], part=True)
    with pytest.raises(EvidenceMissing, match="choose one"):
        desk.act(match_line, case, lines=[first, rest], part=True)
    assert ledger.matches() == []
    desk.act(match_line, case, lines=[first], part=True)
    with pytest.raises(DoNotBelongTogether, match=r"EUR 150\.01, and of \S+ EUR 150\.00 is left"):
        desk.act(match_line, case, lines=[rest])
    with pytest.raises(LineClaimed):
        desk.act(match_line, case, lines=[first], part=True)
    operation_id = case.operation_id
    assert operation_id is not None
    with reading(desk.tenant_id):
        together = Match.objects.get().together
    row = {
        "line_id": rest, "operation_id": operation_id, "operation_place": 1, "together": together, "allocated": 15001,
        "partial": True, "made_by_id": desk.anna.pk, "tier": 5,
    }  # fmt: skip
    for changes, why in (
        ({}, "more than what is left"),
        ({"allocated": 15000}, "more than what is left"),
        ({"together": "other", "line_id": whole, "allocated": 25000}, "more than what is left"),
        ({"made_by_id": None, "tier": 0}, "a_part_is_a_persons_word_and_exact"),
        ({"partial": False}, "does not add up"),
        ({"operation_place": 0}, "one_match_an_operation"),
    ):
        with pytest.raises(psycopg.Error, match=why):
            ledger.match({**row, **changes})
    assert len(ledger.matches()) == 1


def test_of_two_people_with_a_part_each_that_are_too_much_together_one_is_told() -> None:
    with FaultServer(*[fin] * 3) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        cases = [desk.unknown(f"INV-{n}", **PAID)[1] for n in range(3)]
    for case in cases:
        _, (one, other) = two_instalments(desk, (15000, 15000))
        answers = at_once(
            lambda case=case, line=one: desk.act(match_line, case, lines=[line], part=True),
            lambda case=case, line=other: desk.act(match_line, case, desk.ben, lines=[line], part=True),
        )
        (loser,) = [a for a in answers if isinstance(a, DoNotBelongTogether)]
        assert "EUR 100.00 is left" in str(loser)
