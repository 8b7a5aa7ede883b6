"""Lines of a statement that no operation claims: one case a statement, closed with its last line, opened anew."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from access.models import TenantEntry
from access.refusals import NotPermitted
from access.tenancy import reading
from dispatch.models import Operation
from reconciliation import locks
from reconciliation.actions import noting, owning, seconding, steps
from reconciliation.actions.outcomes import confirm_not_applied
from reconciliation.actions.seconding import SecondIsTheAsker
from reconciliation.actions.setting_aside import SetAsideNow, set_lines_aside
from reconciliation.actions.working import EvidenceMissing, StaleCase
from reconciliation.kinds import VerbName
from reconciliation.models import Case, CaseKind
from reconciliation.unclaimed import looking_after
from reconciliation.unclaimed.choosing import Chosen
from reconciliation.unclaimed.pages import lines_page
from reconciliation.unclaimed.setting_aside import OtherLines
from statements.matching.actions.matching import set_matching
from statements.matching.actions.taking_back import take_back_aside
from statements.matching.asides import NotSetAside
from statements.matching.making import LineClaimed
from statements.matching.models import AsideKind, SetAside
from statements.matching.settings import Settings
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, a_contract, as_json
from tests.reconciliation.pages import HOSTILE, as_person
from tests.reconciliation.world import PATIENT, Desk, a_letter
from tests.statements.matching.ledger import Ledger
from tests.statements.matching.test_by_hand import say, take_back
from tests.support import at_once

pytestmark = pytest.mark.django_db(transaction=True)
ALONE = Settings(alone_up_to=25000)


def found(ledger: Ledger) -> list[int]:
    """The statements that the engine has looked after now."""
    return [statement for _, statement in ledger.owner.execute(looking_after.FIND).fetchall()]


def look(ledger: Ledger, worker: str = "w") -> None:
    """What an engine does: find, and take a turn."""
    for statement in found(ledger):
        looking_after.turn(ledger.tenant.pk, statement, worker)


def cases(ledger: Ledger) -> list[Case]:
    with reading(ledger.tenant.pk):
        return list(Case.objects.filter(kind=CaseKind.UNCLAIMED).order_by("pk"))


def the_case(ledger: Ledger) -> Case:
    (case,) = [c for c in cases(ledger) if c.resolved_at is None]
    return case


def allow_alone(ledger: Ledger, settings: Settings = ALONE) -> None:
    set_matching(
        tenant_id=ledger.tenant.pk, receiver_id=ledger.receiver_id, settings=settings, person_id=ledger.admin.pk,
        now=timezone.now(),
    )  # fmt: skip


def aside(ledger: Ledger, ticked: Sequence[int] = (), **changes: Any) -> SetAsideNow:
    case = the_case(ledger)
    values = {
        "person_id": ledger.operator.pk, "version": case.version, "kind": AsideKind.FEE, "words": "", "ticked": ticked,
        "now": timezone.now(), **changes,
    }  # fmt: skip
    return set_lines_aside(tenant_id=ledger.tenant.pk, case_id=case.pk, **values)


def all_of(ledger: Ledger, chosen: Chosen = Chosen()) -> dict[str, Any]:  # noqa: B008 - frozen
    """What the page posts for everything that a filter leaves."""
    with reading(ledger.tenant.pk):
        return {"chosen": chosen, "seen": lines_page(ledger.last, chosen).seen}


def told(ledger: Ledger) -> list[str]:
    with reading(ledger.tenant.pk):
        entries = TenantEntry.objects.order_by("sequence")
        return [e.event for e in entries if e.event.startswith(("case.", "line"))]


def test_what_no_operation_claims_opens_one_case_however_many_workers_look() -> None:
    ledger = Ledger.make()
    (claimed,) = ledger.operations([{"operation_key": "key-of-the-first-one"}])
    statement, (first, *_) = ledger.statement(
        [{"text": "key-of-the-first-one"}, {"amount": 700}, {"amount": 5, "direction": "in"}]
    )
    ledger.owner.execute(
        "INSERT INTO statements_matchrun (tenant_id, receiver_id, settings_version, terms, asked_at, to_look_at, rung,"
        " at_statement, at_row, looked_at, taken, differing, worked_by)"
        " VALUES (%s, %s, 0, '{}', now(), 0, 0, 0, 0, 0, 0, 0, '')",
        [ledger.tenant.pk, ledger.receiver_id],
    )
    assert found(ledger) == [], "what a walk will claim nobody has to look at"
    ledger.owner.execute("UPDATE statements_matchrun SET ended_at = now()")
    ledger.walk()
    assert ledger.matches() == [(first, claimed, 0)]
    assert found(ledger) == [statement]
    at_once(*[lambda w=w: looking_after.turn(ledger.tenant.pk, statement, w) for w in ("w1", "w2", "w3")])
    looking_after.turn(ledger.tenant.pk, statement, "w4")
    (case,) = cases(ledger)
    assert (case.job_id, case.statement_id, case.receiver_id) == (None, statement, ledger.receiver_id)
    assert (case.owner_role, case.blocking, case.due_at - case.opened_at) == (
        "operator",
        False,
        timedelta(hours=24),
    )
    assert case.detail == ("2 lines: EUR 7.00 went out, EUR 0.05 came in, and no operation claims them.")
    assert (found(ledger), told(ledger)) == ([], ["case.opened"])


def test_a_second_booking_of_what_was_sent_again_is_an_alarm_and_moves_nothing() -> None:
    """I5: two people said that the first never arrived, and it was sent again. Then the statement shows both."""
    with FaultServer(fin, answers(200, as_json({**RECEIPT, "record": "INV-1", "id": "R-2"}))) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown("INV-1", amount="250.00", currency="EUR")
        case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
        given = {"evidence": "They wrote so.", "source": "mail", "paper": a_letter(), "then": "send again"}
        desk.act(confirm_not_applied, case, **given)
        desk.answer(seconding.second, desk.fresh(case), desk.ben)
        desk.run(job)
    assert desk.sending.job_state(job) == "CONFIRMED"
    ledger, operation = Ledger.at(desk), desk.sending.operation(job)
    _, (first, again) = ledger.statement([{"reference": operation.operation_key}] * 2)
    ledger.walk()
    ledger.take()
    look(ledger)
    assert ledger.matches() == [(first, operation.pk, 0)]
    alarm = the_case(ledger)
    assert alarm.detail == "1 line: EUR 250.00 went out, and no operation claims it."
    with reading(ledger.tenant.pk):
        (row,) = lines_page(ledger.last, Chosen()).rows
    assert row.line.pk == again
    assert (desk.sending.job_state(job), desk.fresh(case).resolution) == (
        "CONFIRMED",
        "not applied, sent again",
    )


def test_it_closes_with_its_last_line_and_what_is_taken_back_opens_another() -> None:
    ledger = Ledger.make()
    (operation,) = ledger.operations([{}])
    _, (ours, fee) = ledger.statement([{}, {"amount": 250, "text": "fee"}])
    allow_alone(ledger)
    look(ledger)
    first = the_case(ledger)
    assert aside(ledger, [fee]).sentence == "1 line is set aside as bank fee."
    look(ledger)
    assert the_case(ledger).pk == first.pk
    say(ledger, [ours], [operation])
    look(ledger, "w1")
    (closed,) = cases(ledger)
    assert (closed.resolution, closed.resolved_by) == (looking_after.ANSWERED, None)

    take_back(ledger, ours)
    look(ledger)
    second = the_case(ledger)
    assert second.pk != first.pk
    assert f"{first.label} was closed before" in second.detail
    say(ledger, [ours], [operation])
    look(ledger)

    with pytest.raises(NotSetAside):
        take_back_line(ledger, ours)
    take_back_line(ledger, fee)
    look(ledger)
    aside(ledger, [fee], kind=AsideKind.OTHER, words="rounding")
    assert [c.resolution for c in cases(ledger)] == [looking_after.ANSWERED] * 3
    assert cases(ledger)[2].resolved_by_id == ledger.operator.pk, "whoever settles the last line closes it"
    assert told(ledger) == [
        "case.opened", "case.evidence_added", "lines.set_aside", "case.closed", "case.opened", "case.closed",
        "line.taken_back", "case.opened", "case.evidence_added", "lines.set_aside", "case.closed",
    ]  # fmt: skip


def take_back_line(ledger: Ledger, line: int) -> None:
    take_back_aside(
        tenant_id=ledger.tenant.pk,
        line_id=line,
        person_id=ledger.operator.pk,
        reason="look",
        now=timezone.now(),
    )


def test_ticked_lines_have_a_result_each_and_a_filter_takes_what_was_seen_or_nothing() -> None:
    ledger = Ledger.make()
    (operation,) = ledger.operations([{}])
    _, (ours, fee, *rest) = ledger.statement(
        [{}, {"amount": 250}, *[{"amount": n, "direction": "in", "text": f"ATM {n}"} for n in (3, 4, 5)]]
    )
    allow_alone(ledger)
    look(ledger)
    seen = all_of(ledger, Chosen(way="in", text="atm"))
    say(ledger, [ours], [operation])
    done = aside(ledger, [ours, fee])
    assert done.sentence == "1 line is set aside as bank fee."
    (why,) = done.refused
    assert why.endswith(
        f"has matched row 2 of STMT-{ledger.last} with {say_label(ledger, operation)}. Nothing was done now."
    )
    aside(ledger, [rest[0]])
    with pytest.raises(OtherLines, match=r"it is 2 lines: EUR 0\.09 came in now"):
        aside(ledger, **seen)
    with pytest.raises(EvidenceMissing, match="Say in words"):
        aside(ledger, [rest[1]], kind=AsideKind.OTHER)
    with pytest.raises(LineClaimed, match=r"set row 3 of .* aside: bank fee\. Take that back first"):
        say(ledger, [fee], ledger.operations([{"amount_minor": 250}]))
    aside(ledger, **all_of(ledger, Chosen(way="in", text="atm")))
    with reading(ledger.tenant.pk):
        assert SetAside.objects.count() == 4
    assert [c.resolved_at is None for c in cases(ledger)] == [False]
    ledger.operations([{"record": "R", "amount_minor": 3, "operation_key": "atm-3-atm-3-atm-3"}])
    before = ledger.matches()
    ledger.walk(Settings(direction="in", takes_references=True))
    assert ledger.matches() == before, "the machine does not look at what a person has set aside"


def say_label(ledger: Ledger, operation: int) -> str:
    with reading(ledger.tenant.pk):
        return Operation.objects.get(pk=operation).label


def test_above_the_receivers_limit_a_second_person_agrees_to_the_same_lines() -> None:
    ledger = Ledger.make()
    _, (small, large) = ledger.statement([{"amount": 25000}, {"amount": 25001}])
    allow_alone(ledger)
    look(ledger)
    asked = aside(ledger, [small, large], kind=AsideKind.NOT_OURS, words="the landlord's")
    assert asked.request_id is not None
    case = the_case(ledger)
    with pytest.raises(psycopg.errors.CheckViolation, match="needs a second person"):
        ledger.owner.execute(
            "INSERT INTO statements_setaside (tenant_id, line_id, statement_id, kind, words, together, made_by_id, made_at,"
            " reason) VALUES (%s, %s, %s, 'bank fee', '', '', %s, now(), '')",
            [ledger.tenant.pk, large, ledger.last, ledger.operator.pk],
        )

    def answer(verb: Any, person: int, **more: Any) -> Any:
        values = {"version": the_case(ledger).version, "now": timezone.now(), **more}
        return verb(tenant_id=ledger.tenant.pk, request_id=asked.request_id, person_id=person, **values)

    with pytest.raises(SecondIsTheAsker):
        answer(seconding.second, ledger.operator.pk)
    with pytest.raises(StaleCase):
        answer(seconding.second, ledger.admin.pk, version=case.version - 1)
    with reading(ledger.tenant.pk):
        assert SetAside.objects.count() == 0
    answer(seconding.second, ledger.admin.pk)
    with reading(ledger.tenant.pk):
        rows = list(SetAside.objects.order_by("line_id"))
    assert [(r.line_id, r.made_by, r.second, r.words) for r in rows] == [
        (line, ledger.operator, ledger.admin, "the landlord's") for line in (small, large)
    ]
    (closed,) = cases(ledger)
    assert (closed.resolution, closed.second_person_id) == (looking_after.ANSWERED, ledger.admin.pk)
    with pytest.raises(psycopg.errors.CheckViolation, match="is set aside"):
        ledger.match(
            {
                "line_id": large,
                "operation_id": ledger.operations([{"amount_minor": 25001}])[0],
                "allocated": 25001,
            }
        )


def test_of_two_people_at_a_line_the_second_is_told() -> None:
    """One matches it and the other sets it aside, released together."""
    ledger = Ledger.make()
    (operation,) = ledger.operations([{}])
    _, (line,) = ledger.statement([{}])
    allow_alone(ledger)
    look(ledger)
    done = at_once(lambda: say(ledger, [line], [operation]), lambda: aside(ledger, [line]))
    assert sorted(isinstance(d, LineClaimed | OtherLines) for d in done) == [False, True]
    look(ledger)
    assert [c.resolution for c in cases(ledger)] == [looking_after.ANSWERED]


def test_a_case_without_a_job_is_owned_put_off_and_talked_about_as_any_other() -> None:
    ledger = Ledger.make()
    ledger.statement([{"text": HOSTILE}])
    look(ledger)
    tenant, who, now = ledger.tenant.pk, ledger.operator.pk, timezone.now()
    case = the_case(ledger)
    plainly = {"tenant_id": tenant, "case_id": case.pk, "person_id": who, "now": now}
    owning.take(**plainly, version=0)
    owning.snooze(**plainly, version=1, until=now + timedelta(hours=30), reason="the bank writes tomorrow")
    owning.hand_over(**plainly, version=2, assignee_id=ledger.admin.pk, note="yours")
    noting.comment(**plainly, body="asked the bank")
    with pytest.raises(locks.NotOfAJob, match="match them, or set them aside"):
        steps.give_up(**plainly, version=3, reason="no")
    with pytest.raises(NotPermitted):
        noting.comment(**{**plainly, "person_id": ledger.world.submitter.pk + 10_000}, body="x")
    assert told(ledger) == [
        "case.opened", "case.assigned", "case.snoozed", "case.assigned", "case.commented", "case.commented",
        "case.refused", "case.refused",
    ]  # fmt: skip
    with reading(tenant):
        evidence = json.loads(TenantEntry.objects.get(event="case.snoozed").evidence)
    assert evidence["case"] == case.pk
    browser, at = as_person(ledger.operator), f"/t/{ledger.tenant.slug}/cases/"
    for person in (ledger.operator, ledger.admin):
        home = as_person(person).get(f"/t/{ledger.tenant.slug}/")
        assert (home.status_code, b"Unclaimed statement lines" in home.content) == (200, True)
    listed = browser.get(f"{at}?kind=unclaimed&snoozed=1").content.decode()
    assert f"What are the unclaimed lines of STMT-{ledger.last}" in listed
    shown = browser.get(f"{at}{case.pk}/").content.decode()
    assert "<img" not in shown
    assert "1 line: EUR 250.00 went out" in shown


def test_lines_are_set_aside_on_the_cases_page() -> None:
    ledger = Ledger.make()
    _, (line, other) = ledger.statement([{"text": "fee"}, {"text": "rent"}])
    allow_alone(ledger)
    look(ledger)
    case, browser = the_case(ledger), as_person(ledger.operator)
    at = f"/t/{ledger.tenant.slug}/cases/{case.pk}/"
    seen = all_of(ledger, Chosen(text="rent"))["seen"]
    given = {"version": 0, "which": "all", "text": "rent", "seen": seen, "kind": "not ours"}
    refused = browser.post(f"{at}set-aside/", {**given, "seen": "2 out EUR 50000"})
    assert (refused.status_code, b"not the lines that were on the screen" in refused.content) == (409, True)
    assert browser.post(f"{at}set-aside/", {**given, "kind": ""}).status_code == 422
    assert browser.post(f"{at}set-aside/", given).status_code == 302
    assert "Not ours" in browser.get(f"{at}?show=aside").content.decode()
    back = browser.post(
        f"/t/{ledger.tenant.slug}/statements/lines/{other}/take-back/", {"reason": "it is ours"}
    )
    assert back.status_code == 302
    for ticked in (line, other):
        posted = {"version": 0, "which": "ticked", "line": ticked, "kind": "bank fee"}
        assert browser.post(f"{at}set-aside/", posted).status_code == 302
    assert browser.get(at).content.decode().count("every line is claimed or set aside") == 2


def test_the_database_wants_a_job_of_every_other_kind() -> None:
    ledger = Ledger.make()
    ledger.statement([{}])
    look(ledger)
    for change in ("kind = 'contradicted'", f"job_id = {ledger.job_id}", "statement_id = NULL"):
        with pytest.raises(psycopg.errors.CheckViolation, match="of_a_job_or_of_a_statement"):
            ledger.owner.execute(f"UPDATE reconciliation_case SET {change}")
