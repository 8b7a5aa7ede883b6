"""What people say about lines: which operation one is, that it is not, and who was first."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from access.refusals import NotPermitted
from access.tenancy import reading
from dispatch.models import Operation, Receiver
from reconciliation.models import CaseKind
from statements.matching import candidates, completeness
from statements.matching.actions.matching import (
    ReasonMissing,
    UnmadeAlready,
    match_lines,
    set_matching,
    unmatch,
)
from statements.matching.making import DoNotBelongTogether, LineClaimed, NeedsTwoPeople
from statements.matching.models import Match, Tally
from statements.matching.settings import Settings
from statements.models import Statement
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract
from tests.reconciliation.pages import as_person
from tests.reconciliation.world import PATIENT, Desk
from tests.statements.matching.ledger import Ledger
from tests.statements.shelf import Shelf, content_of, terms
from tests.support import at_once
from workflows.models import Job

pytestmark = pytest.mark.django_db(transaction=True)
PAID = {"amount": "250.00", "currency": "EUR"}
BY_REFERENCE = Settings(takes_references=True)


def say(ledger: Ledger, lines: list[int], operations: list[int], **changes: Any) -> Any:
    values = {
        "person_id": ledger.operator.pk,
        "reason": "the remittance slip says so",
        "now": timezone.now(),
        **changes,
    }
    return match_lines(tenant_id=ledger.tenant.pk, line_ids=lines, operation_ids=operations, **values)


def take_back(ledger: Ledger, line: int, **changes: Any) -> str:
    with reading(ledger.tenant.pk):
        match = Match.objects.filter(line=line).latest("pk")
    values = {
        "person_id": ledger.operator.pk,
        "reason": "it was another invoice",
        "now": timezone.now(),
        **changes,
    }
    return unmatch(tenant_id=ledger.tenant.pk, match_id=match.pk, **values)


def lost(desk: Desk, record: str = "INV-1", **changes: Any) -> Job:
    job, _ = desk.unknown(record, **{**PAID, **changes})
    return job


def test_a_suggestion_is_taken_by_a_person_and_answers_the_case() -> None:
    """K1: two of the same amount; the machine takes neither, a person knows which."""
    with FaultServer(fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        first, second = lost(desk, "INV-1"), lost(desk, "INV-2", recipient="Pellworth Glass")
    ledger = Ledger.at(desk)
    _, (line,) = ledger.statement([{"booked_on": timezone.now().date(), "text": "PELLWORTH GLASS"}])
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == []
    with reading(ledger.tenant.pk):
        offered = candidates.for_line(line).suggestions
    operations = [desk.sending.operation(job).pk for job in (first, second)]
    assert [s.expected.operation_id for s in offered] == operations[::-1], (
        "the one whose words are alike stands first"
    )
    assert "100 % of “Pellworth Glass” is in its words" in offered[0].because
    assert offered[0].apart.startswith("record INV-2, to Pellworth Glass")

    done = say(ledger, [line], [operations[1]])
    assert done.sentence == f"Matched. {desk.sending.operation(second).label} is confirmed by it."
    assert [desk.sending.job_state(job) for job in (first, second)] == ["NEEDS_RECONCILIATION", "CONFIRMED"]
    assert desk.case(second).resolution == "settled by evidence"
    assert "operation.line_matched" in desk.events(second)
    with reading(ledger.tenant.pk):
        match = Match.objects.get()
    assert (match.made_by, match.tier, match.reason) == (ledger.operator, 3, "the remittance slip says so")


def test_the_machine_never_undoes_what_a_person_said() -> None:
    """K2: matched by hand against the reference, then walked over again; and taken apart, then walked over again."""
    ledger = Ledger.make()
    named, other = ledger.operations([{"record": "INV-1"}, {"record": "INV-2"}])
    _, (line,) = ledger.statement([{"reference": "INV-1"}])
    say(ledger, [line], [other])
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == [(line, other, 3)]
    said = take_back(ledger, line)
    assert "stays as it was" in said
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == [(line, named, 2)], "the pair that fits was never taken apart"
    take_back(ledger, line)
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == []
    with pytest.raises(UnmadeAlready):
        take_back(ledger, line)


def test_the_next_file_changes_nothing_of_what_a_person_matched() -> None:
    """K2: the next statement names what was matched by hand, and the machine goes over both files."""
    ledger = Ledger.make()
    named, other = ledger.operations([{"record": "INV-1"}, {"record": "INV-2"}])
    _, (line,) = ledger.statement([{"reference": "INV-1"}])
    say(ledger, [line], [other])
    before = ledger.matches()
    _, (by_hand, free) = ledger.statement([{"reference": "INV-2"}, {"reference": "INV-1"}])
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == [*before, (free, named, 2)]
    assert by_hand not in [booked for booked, _, _ in ledger.matches()], "its operation is taken"


def test_two_walks_at_once_give_one_line_to_neither_of_two_equal_operations_and_a_person_to_one() -> None:
    """K7: nothing tells the two apart, so no machine may; the other one stays open."""
    ledger = Ledger.make()
    first, second = ledger.operations([{"record": "INV-3"}, {"record": "INV 3"}])
    statement, (line,) = ledger.statement([{"reference": "INV-3"}])

    def both() -> None:
        """The one over this statement, the other over all of them."""
        at_once(lambda: ledger.walk(BY_REFERENCE), lambda: ledger.walk(BY_REFERENCE, statement_id=statement))

    both()
    assert ledger.matches() == []
    say(ledger, [line], [second])
    with pytest.raises(LineClaimed):
        say(ledger, [line], [first])
    both()
    assert [(booked, operation) for booked, operation, _ in ledger.matches()] == [(line, second)]


def test_one_line_is_three_operations_and_is_used_once() -> None:
    """K5."""
    ledger = Ledger.make()
    three = ledger.operations(
        [{"amount_minor": a, "record": f"INV-{a}", "state": "UNKNOWN"} for a in (10000, 5000, 2550)]
    )
    (fourth,) = ledger.operations([{"amount_minor": 17550, "record": "INV-4"}])
    statement, (line,) = ledger.statement(
        [{"amount": 17550, "text": "BATCH 3 ITEMS", "booked_on": "2026-03-12"}]
    )
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == []
    with reading(ledger.tenant.pk):
        (together,) = candidates.for_line(line).together
    assert sorted(o.operation_id for o in together.operations) == sorted(three)
    with pytest.raises(DoNotBelongTogether, match=r"EUR 175\.50 was booked and EUR 150\.00 approved"):
        say(ledger, [line], three[:2])
    ledger.unstopped()
    say(ledger, [line], three)
    assert [o for _, o, _ in ledger.matches()] == three
    with pytest.raises(
        LineClaimed, match=f"{ledger.operator.username} has matched row 2 of STMT-{statement} with"
    ):
        say(ledger, [line], [fourth])
    with reading(ledger.tenant.pk):
        assert Tally.objects.values_list("lines", "amount").get() == (1, 17550)
    take_back(ledger, line)
    assert ledger.matches() == []
    with reading(ledger.tenant.pk):
        assert Tally.objects.values_list("lines", "amount").get() == (0, 0)


def test_the_file_whose_one_line_is_three_payments_is_read_proposed_and_taken_by_a_person() -> None:
    """K5, from the bank's file on: it names none of them, so nothing is taken before somebody says so."""
    ledger = Ledger.make()
    three = ledger.operations(
        [
            {"amount_minor": a, "record": f"INV-{a}", "sent": "2026-08-21T12:00:00Z"}
            for a in (10000, 5000, 2550)
        ]
    )
    ledger.operations([{"amount_minor": 999, "record": "INV-4", "sent": "2026-08-21T12:00:00Z"}])
    with reading(ledger.tenant.pk):
        shelf = Shelf(ledger.tenant, ledger.operator, Receiver.objects.get(pk=ledger.receiver_id))
    mapping = terms(columns={"booked_on": "Date", "amount": "Amount"}, texts=["Purpose"])
    statement = shelf.read(content_of("14_sum_of_three.csv"), mapping)
    (line,) = shelf.lines(statement)
    assert (line.amount, line.direction, line.text) == (17550, "out", "BATCH 3 ITEMS")
    shelf.apply(statement)
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == []
    with reading(ledger.tenant.pk):
        (together,) = candidates.for_line(line.pk).together
    assert sorted(o.operation_id for o in together.operations) == sorted(three)
    say(ledger, [line.pk], three)
    assert [(booked, o) for booked, o, _ in ledger.matches()] == [(line.pk, o) for o in three]


def test_several_lines_are_several_operations_where_nothing_simpler_adds_up() -> None:
    """Two payments of 100.00 and 75.50 that a receiver has booked as 60.00 and 115.50. A person says so; nothing else may use them."""
    ledger = Ledger.make()
    payments = ledger.operations(
        [{"amount_minor": a, "record": f"INV-{a}", "state": "UNKNOWN"} for a in (10000, 7550)]
    )
    statement, (one, other, alone) = ledger.statement(
        [{"amount": a, "booked_on": "2026-03-12"} for a in (6000, 11550, 77)]
    )
    ledger.walk(BY_REFERENCE)
    assert ledger.matches() == []
    url = reverse("statement-line", args=(ledger.tenant.slug, one))
    page = as_person(ledger.operator).get(url).content.decode()
    assert "2 lines and 2 operations add up to the same exactly" in page
    (value,) = re.findall(r'name="operations" value="([^"]+)"', page)
    assert value == f"{other}:{payments[0]},{payments[1]}"
    with pytest.raises(DoNotBelongTogether, match=r"EUR 60\.77 was booked and EUR 175\.50 approved"):
        say(ledger, [one, alone], payments)
    ledger.unstopped()
    said = as_person(ledger.operator).post(f"{url}match/", {"operations": value, "reason": "their slip"})
    assert said.status_code == 302
    with reading(ledger.tenant.pk):
        rows = Match.objects.order_by("pk")
        places = [(m.line_id, m.operation_id, m.allocated, m.line_place, m.operation_place) for m in rows]
        assert Tally.objects.values_list("lines", "amount").get() == (2, 17550)
        side = completeness.of_statement(statement).side
    assert places == [
        (one, payments[0], 6000, 0, 0), (other, payments[0], 4000, 0, 1), (other, payments[1], 7550, 1, 0),
    ]  # fmt: skip
    with reading(ledger.tenant.pk):
        assert set(Operation.objects.filter(pk__in=payments).values_list("state", flat=True)) == {"CONFIRMED"}
    assert side is None or side.explained
    page = as_person(ledger.operator).get(url).content.decode()
    assert "Together with" in page
    (third,) = ledger.operations([{"amount_minor": 6000, "record": "INV-9"}])
    with pytest.raises(LineClaimed):
        say(ledger, [one], [third])
    take_back(ledger, other)
    assert ledger.matches() == []
    with reading(ledger.tenant.pk):
        assert Tally.objects.values_list("lines", "amount").get() == (0, 0)


def test_several_lines_are_one_operation() -> None:
    ledger = Ledger.make()
    (one,) = ledger.operations([{"amount_minor": 300}])
    _, lines = ledger.statement([{"amount": 100}, {"amount": 200}, {"amount": 50}])
    say(ledger, lines[:2], [one])
    assert ledger.matches() == [(lines[0], one, 5), (lines[1], one, 5)]


def test_what_does_not_belong_together_is_refused_with_why() -> None:
    ledger = Ledger.make()
    euro, dollar, unsent, bare = ledger.operations(
        [
            {"record": "A", "account": "main"},
            {"record": "B", "currency": "USD"},
            {"record": "C", "sent": None},
            {"record": "D", "amount_minor": None, "currency": ""},
        ]
    )
    _, lines = ledger.statement(
        [{}, {"direction": "in"}, {"account": "x"}, {"amount": 25001}, {"amount": 25051}]
    )
    set_matching(
        tenant_id=ledger.tenant.pk, receiver_id=ledger.receiver_id, settings=Settings(tolerance=50),
        person_id=ledger.admin.pk, now=timezone.now(),
    )  # fmt: skip
    for line, operation, kind, why in (
        (lines[0], dollar, DoNotBelongTogether, "different currencies"),
        (lines[0], unsent, DoNotBelongTogether, "never sent by us"),
        (lines[0], bare, DoNotBelongTogether, "No amount was approved"),
        (lines[1], euro, DoNotBelongTogether, "the other way"),
        (lines[2], euro, DoNotBelongTogether, "another account"),
        (lines[3], euro, NeedsTwoPeople, "EUR 0.01 apart: a second person has to agree"),
        (lines[4], euro, DoNotBelongTogether, "more apart than this receiver’s settings allow"),
    ):
        with pytest.raises(kind, match=why):
            say(ledger, [line], [operation])
    with pytest.raises(NotPermitted):
        say(ledger, [lines[0]], [euro], person_id=ledger.admin.pk)
    assert ledger.matches() == []


def test_of_two_people_at_one_line_one_wins_and_the_other_is_told_who() -> None:
    """Both have the page open and press together; each of another job, so no lock of ours parts them before the index."""
    with FaultServer(*[fin] * 10) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        pairs = [(lost(desk, f"A-{n}"), lost(desk, f"B-{n}")) for n in range(5)]
    ledger = Ledger.at(desk)
    for one, other in pairs:
        _, (line,) = ledger.statement([{}])
        answers = at_once(
            lambda line=line, job=one: say(
                ledger, [line], [desk.sending.operation(job).pk], person_id=desk.anna.pk
            ),
            lambda line=line, job=other: say(
                ledger, [line], [desk.sending.operation(job).pk], person_id=desk.ben.pk
            ),
        )
        (loser,) = [a for a in answers if isinstance(a, LineClaimed)]
        with reading(ledger.tenant.pk):
            match = Match.objects.select_related("made_by", "operation").get(line=line)
        assert str(loser).startswith(f"{match.made_by} has matched row 2 of")
        assert str(loser).endswith(f"with {match.operation.label}. Nothing was done now.")
        assert sorted([desk.sending.operation(j).state for j in (one, other)]) == ["CONFIRMED", "UNKNOWN"]


def test_a_match_that_is_taken_back_leaves_the_outcome_as_unknown_as_it_was() -> None:
    """In a job that still runs it is unknown again at once; in one that has ended a case asks, and two people reopen it."""
    with FaultServer(fin, fin, fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        ended = lost(desk, "INV-1")
        running = desk.sending.ready("INV-2", "INV-3", **PAID, independent=True)
        desk.run(running)
    ledger = Ledger.at(desk)
    _, lines = ledger.statement([{}, {}])
    say(ledger, [lines[0]], [desk.sending.operation(ended).pk])
    half, _ = desk.sending.operations(running)
    say(ledger, [lines[1]], [half.pk])
    assert desk.sending.operations(running)[0].state == "CONFIRMED"
    with pytest.raises(ReasonMissing):
        take_back(ledger, lines[1], reason=" ")
    assert "is of unknown outcome again" in take_back(ledger, lines[1])
    again = desk.sending.operations(running)[0]
    assert (again.state, again.next_step, desk.sending.job_state(running)) == (
        "UNKNOWN",
        "",
        "NEEDS_RECONCILIATION",
    )
    asked = [(c.kind, c.operation_id) for c in desk.cases(running, open_only=True)]
    assert (CaseKind.UNKNOWN_OUTCOME, again.pk) in asked

    take_back(ledger, lines[0])
    assert desk.sending.job_state(ended) == "CONFIRMED"
    assert desk.case(ended).kind == CaseKind.CONTRADICTED


def test_sums_and_what_makes_their_difference_add_up() -> None:
    ledger = Ledger.make()
    keyed, split, absent, early = ledger.operations(
        [
            {
                "operation_key": "kq7m2f9hd3xw5zt8",
                "amount_minor": 1000,
                "record": "A",
                "sent": "2026-03-12T08:00:00Z",
            },
            {"amount_minor": 300, "record": "B", "sent": "2026-03-12T08:00:00Z"},
            {"amount_minor": 70, "record": "C", "sent": "2026-03-12T08:00:00Z"},
            {"amount_minor": 50, "record": "D", "sent": "2026-02-01T08:00:00Z"},
        ]
    )
    statement, lines = ledger.statement(
        [{"reference": "kq7m2f9hd3xw5zt8", "amount": 1000}, {"amount": 300}, {"amount": 50}, {"amount": 9}],
        first="2026-03-12", last="2026-03-12", opening=5000, closing=3641,
    )  # fmt: skip
    ledger.walk()
    say(ledger, [lines[1]], [split])
    say(ledger, [lines[2]], [early])
    with reading(ledger.tenant.pk):
        whole = completeness.of_statement(statement)
        assert Statement.objects.get().lines == 4
    page = whole.side
    assert page is not None
    assert (str(page.booked.amount), str(page.settled.amount), str(page.residual)) == (
        "13.59",
        "13.70",
        "-0.11",
    )
    assert [(p.count, str(p.amount)) for p in page.parts] == [(1, "0.09"), (1, "-0.70"), (1, "0.50")]
    assert page.explained
    assert [o.operation_id for o in page.operations_without_line] == [absent]
    assert [v.line.pk for v in page.lines_without_operation] == [lines[3]]
    assert whole.balances is not None
    assert [str(b) for b in whole.balances] == ["50.00", "36.41", "0.00"]
    assert keyed
