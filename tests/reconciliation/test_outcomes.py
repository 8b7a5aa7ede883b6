"""The verbs that answer "what became of it?", each allowed and refused; a refusal changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from access.actions.tenants import revoke_tenant
from access.refusals import NotPermitted
from access.tenancy import reading
from approvals.actions.block import block_recipient
from dispatch.models import Submission
from reconciliation.actions.comparing import DoesNotMatch
from reconciliation.actions.outcomes import accept_conflict, confirm_not_applied, look_up, resubmit_same_key
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.actions.seconding import SecondIsTheAsker, decline, second, withdraw_request
from reconciliation.actions.working import EvidenceMissing, NotAllowedNow, StaleCase
from reconciliation.kinds import VerbName
from reconciliation.situation import may_still_send
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, a_contract, a_keyed_contract, a_lookup_contract, as_json, end_worker
from tests.reconciliation.world import PATIENT, Desk, a_letter, now, receipt

pytestmark = pytest.mark.django_db(transaction=True)
OK = answers(200, as_json(RECEIPT))
ABSENT = answers(404, as_json({}))


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


def neither(erp: FaultServer) -> Desk:
    return Desk.make(erp.url, a_contract(timeouts=PATIENT))


def keyed(erp: FaultServer, **changes: object) -> Desk:
    return Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0, **changes))


def test_a_receipt_that_agrees_confirms_the_operation_and_closes_the_case(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    done = desk.act(confirm_with_receipt, case, receipt=receipt())
    closed = desk.fresh(case)
    assert (done.resolution, done.job_state) == ("applied, by receipt", "CONFIRMED")
    assert (closed.resolved_by, closed.version) == (desk.anna, case.version + 1)
    assert desk.sending.operation(job).receipt_id == "R-77"
    assert desk.cases(job, open_only=True) == []
    assert [e for e in desk.events(job) if e.startswith("case.")] == [
        "case.opened", "case.evidence_added", "case.closed",
    ]  # fmt: skip
    assert len(erp.received) == 1


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("receipt_id", {"receipt_id": " "}),
        ("record", {"record": "V-2"}),
        ("amount", {"amount": "4800.00", "currency": "EUR"}),
        ("obtained_at", {"obtained_at": now() + timedelta(days=1)}),
        ("obtained_at", {"obtained_at": now() - timedelta(days=1)}),
    ],
)
def test_a_receipt_that_disagrees_is_refused_by_field(
    erp: FaultServer, field: str, changes: dict[str, object]
) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    before = desk.snapshot(job)
    with pytest.raises(DoesNotMatch) as refused:
        desk.act(confirm_with_receipt, case, receipt=receipt(**changes))
    assert refused.value.field == field
    assert desk.snapshot(job) == before
    assert desk.events(job)[-1] == "case.refused"


@pytest.mark.parametrize(
    ("field", "amount", "currency"),
    [
        ("amount", "4800.01", "EUR"),
        ("currency", "4800", "USD"),
        ("amount", "", "EUR"),
        ("amount", "NaN", "EUR"),
    ],
)
def test_an_amount_is_compared_with_the_signed_one(
    erp: FaultServer, field: str, amount: str, currency: str
) -> None:
    desk = neither(erp)
    job, case = desk.unknown(amount="4800.00", currency="EUR")
    before = desk.snapshot(job)
    with pytest.raises(DoesNotMatch) as refused:
        desk.act(confirm_with_receipt, case, receipt=receipt(amount=amount, currency=currency))
    assert refused.value.field == field
    assert desk.snapshot(job) == before
    done = desk.act(confirm_with_receipt, case, receipt=receipt(amount="4800", currency="eur"))
    assert done.job_state == "CONFIRMED"


def test_a_receipt_of_another_operation_is_refused(erp: FaultServer) -> None:
    erp.then(fin)
    desk = neither(erp)
    _, first = desk.unknown("V-1")
    job, case = desk.unknown("V-2")
    desk.act(confirm_with_receipt, first, receipt=receipt())
    with pytest.raises(DoesNotMatch, match="already") as refused:
        desk.act(confirm_with_receipt, case, receipt=receipt(record="V-2"))
    assert refused.value.field == "receipt_id"
    assert desk.sending.operation(job).state == "UNKNOWN"


def test_only_an_operator_resolves(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    before = desk.snapshot(job)
    for person in (desk.admin, desk.auditor, desk.world.manager, desk.world.submitter):
        with pytest.raises(NotPermitted):
            desk.act(confirm_with_receipt, case, person, receipt=receipt())
    assert desk.snapshot(job) == before


def test_a_lookup_that_finds_it_settles_the_case_by_evidence() -> None:
    with FaultServer(fin, answers(500), answers(500), OK) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(proves_after=None, timeouts=PATIENT))
        job, case = desk.unknown()
        seen = desk.act(look_up, case)
        assert (seen.found, seen.proves, seen.resolved) == ("applied", True, True)
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by) == ("settled by evidence", desk.anna)
    assert desk.sending.job_state(job) == "CONFIRMED"


def test_a_lookup_that_finds_nothing_settles_nothing_where_absence_is_no_proof() -> None:
    with FaultServer(fin, *[ABSENT] * 3) as erp:
        desk = Desk.make(erp.url, a_lookup_contract(proves_after=None, timeouts=PATIENT))
        job, case = desk.unknown()
        seen = desk.act(look_up, case)
        assert (seen.found, seen.proves, seen.resolved) == ("absent", False, False)
        case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
        with pytest.raises(NotAllowedNow, match="proves nothing"):
            desk.act(confirm_not_applied, case, evidence="not found", basis="look-up")
    assert desk.sending.operation(job).state == "UNKNOWN"


def test_a_receiver_without_lookup_is_not_asked(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    before = desk.snapshot(job)
    with pytest.raises(NotAllowedNow, match="offers no look-up"):
        desk.act(look_up, case)
    assert desk.snapshot(job) == before


def test_not_applied_takes_two_people_and_sends_nothing(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    asked = desk.act(
        confirm_not_applied,
        case,
        evidence="They wrote that it never arrived.",
        source="mail 14:02",
        paper=a_letter(),
    )
    assert (asked.resolution, asked.job_state) == ("", "NEEDS_RECONCILIATION")
    assert desk.sending.operation(job).state == "UNKNOWN"
    case = desk.fresh(case)
    with pytest.raises(SecondIsTheAsker):
        desk.answer(second, case, desk.anna)
    for person in (desk.auditor, desk.world.manager):
        with pytest.raises(NotPermitted):
            desk.answer(second, case, person)
    done = desk.answer(second, case, desk.admin)
    closed = desk.fresh(case)
    assert (closed.resolution, closed.resolved_by, closed.second_person) == (
        "not applied",
        desk.anna,
        desk.admin,
    )
    assert (done.job_state, desk.sending.operation(job).state) == ("FAILED", "NOT_APPLIED")
    assert [(r.outcome, r.closed_by_id) for r in desk.requests(case)] == [("seconded", desk.admin.pk)]
    assert len(erp.received) == 1


def test_not_applied_waits_until_the_first_send_cannot_arrive_any_more(erp: FaultServer) -> None:
    desk = Desk.make(erp.url, a_contract(in_flight_max=60))
    job, case = desk.unknown()
    before = desk.snapshot(job)
    with pytest.raises(NotAllowedNow, match="may still arrive"):
        desk.act(confirm_not_applied, case, evidence="surely not", source="me")
    assert desk.snapshot(job) == before


def test_not_applied_needs_evidence_in_words(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    before = desk.snapshot(job)
    for missing in ({"evidence": " "}, {"source": ""}, {"basis": "a feeling"}, {"then": "whatever"}):
        with pytest.raises(EvidenceMissing):
            desk.act(
                confirm_not_applied,
                case,
                **{"evidence": "they wrote", "source": "mail", "paper": a_letter(), **missing},
            )
    assert desk.snapshot(job) == before


def test_not_applied_and_sent_again_is_the_same_key_after_the_window(erp: FaultServer) -> None:
    erp.then(OK)
    desk = keyed(erp, retention=10, retention_margin=10)
    job, case = desk.unknown()
    assert "no longer recognises" in desk.verb(case, VerbName.RESUBMIT).why_not
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(
        confirm_not_applied,
        case,
        evidence="They wrote so.",
        source="mail",
        paper=a_letter(),
        then="send again",
    )
    done = desk.answer(second, desk.fresh(case), desk.ben)
    assert (done.resolution, done.job_state) == ("not applied, sent again", "SUBMITTED")
    assert len(erp.received) == 1
    desk.run(job)
    assert desk.sending.job_state(job) == "CONFIRMED"
    assert erp.received[0] == erp.received[1]


def test_the_same_key_inside_its_window_needs_one_person(erp: FaultServer) -> None:
    erp.then(OK)
    desk = keyed(erp)
    job, case = desk.unknown()
    assert "may still arrive" in desk.verb(case, VerbName.RESUBMIT).why_not
    case = desk.once_allowed(case, VerbName.RESUBMIT)
    assert not desk.verb(case, VerbName.RESUBMIT).needs_second
    done = desk.act(resubmit_same_key, case, reason="their incident is over")
    assert (done.resolution, done.job_state) == ("sent again, same key", "SUBMITTED")
    desk.run(job)
    assert desk.sending.job_state(job) == "CONFIRMED"
    assert erp.received[0] == erp.received[1]


@pytest.mark.parametrize("policy", ["recipient", "organisation"])
def test_the_same_key_is_not_sent_again_against_hard_policy(erp: FaultServer, policy: str) -> None:
    desk = keyed(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.RESUBMIT)
    if policy == "organisation":
        revoke_tenant(tenant_id=desk.tenant_id, reason="the contract ended", now=now())
    else:
        block_recipient(
            tenant_id=desk.tenant_id, recipient=desk.world.proposal(job).recipient, reason="the contract ended",
            person_id=desk.sending.admin.pk, now=now(),
        )  # fmt: skip
    before = desk.snapshot(job)
    with pytest.raises(NotAllowedNow, match="the contract ended"):
        desk.act(resubmit_same_key, case, reason="their incident is over")
    assert desk.snapshot(job) == before
    assert desk.verb(case, VerbName.LOOK_UP).why_not.endswith("offers no look-up.")


def test_the_same_key_is_refused_once_the_window_has_passed(erp: FaultServer) -> None:
    desk = keyed(erp, retention=10, retention_margin=10)
    job, case = desk.unknown()
    desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    before = desk.snapshot(job)
    with pytest.raises(NotAllowedNow, match="no longer recognises"):
        desk.act(resubmit_same_key, case, reason="try")
    assert desk.snapshot(job) == before


def test_sending_again_while_the_first_may_be_on_its_way_is_refused(erp: FaultServer) -> None:
    desk = Desk.make(erp.url, a_keyed_contract(in_flight_max=60, automatic_resubmissions=0))
    job, case = desk.unknown()
    before = desk.snapshot(job)
    with pytest.raises(NotAllowedNow, match="may still arrive"):
        desk.act(resubmit_same_key, case, reason="impatient")
    assert desk.snapshot(job) == before


def test_what_the_receiver_books_half_a_minute_later_was_not_sent_again_meanwhile() -> None:
    """I3. Anna is impatient after ten seconds, and asks instead; what she finds then leaves nothing to send."""
    with FaultServer(fin, ABSENT, ABSENT, OK) as erp:
        contract = a_lookup_contract(proves_after=None, in_flight_max=60, timeouts=PATIENT)
        desk = Desk.make(erp.url, contract)
        job, case = desk.unknown()
        before = desk.snapshot(job)
        with pytest.raises(NotAllowedNow, match="may still arrive"):
            desk.act(resubmit_same_key, case, reason="impatient")
        assert desk.snapshot(job) == before
        assert desk.act(look_up, case).resolved
        with pytest.raises(StaleCase):
            desk.act(resubmit_same_key, desk.fresh(case), reason="still impatient")
        assert [r.split(b" ")[0] for r in erp.received] == [b"PUT", b"GET", b"GET", b"GET"]
    assert (desk.sending.job_state(job), desk.sending.operation(job).state) == ("CONFIRMED", "CONFIRMED")


def test_with_neither_key_nor_lookup_sending_again_takes_a_reason_and_a_second_person(
    erp: FaultServer,
) -> None:
    erp.then(OK)
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.RESUBMIT)
    assert "will not deduplicate this" in desk.verb(case, VerbName.RESUBMIT).sentence
    with pytest.raises(EvidenceMissing):
        desk.act(resubmit_same_key, case, reason="")
    asked = desk.act(resubmit_same_key, case, reason="The clerk looked: it is not there.")
    assert asked.request_id is not None
    desk.sending.step(desk.sending.operation(job))
    assert len(erp.received) == 1
    desk.answer(second, desk.fresh(case), desk.ben)
    desk.run(job)
    assert len(erp.received) == 2
    # A success there may be the second effect, so nothing but a person confirms it.
    assert desk.sending.job_state(job) == "NEEDS_RECONCILIATION"
    assert [c.kind for c in desk.cases(job, open_only=True)] == ["possible duplicate", "conflicted"]


def test_a_cancel_request_stands_in_the_way_of_sending_again(erp: FaultServer) -> None:
    from workflows.actions.cancel import cancel_job

    desk = keyed(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.RESUBMIT)
    cancel_job(tenant_id=desk.tenant_id, job_id=job.pk, person_id=desk.admin.pk, reason="stop", now=now())
    with pytest.raises(NotAllowedNow, match="asked to cancel"):
        desk.act(resubmit_same_key, case, reason="again")
    assert desk.sending.operation(job).next_step == ""


def test_a_difference_is_accepted_by_two_people() -> None:
    other = answers(200, as_json({**RECEIPT, "fields": {"limit": "1.00"}}))
    with FaultServer(other) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
    assert (case.kind, desk.page(case).state_words) == ("conflicted", "Answer differs")
    with pytest.raises(EvidenceMissing):
        desk.act(accept_conflict, case, reason="", difference=desk.page(case).difference)
    seen = desk.page(case).difference
    desk.act(accept_conflict, case, reason="They agreed on 1.00 by telephone.", difference=seen)
    assert desk.sending.operation(job).state == "CONFLICTED"
    done = desk.answer(second, desk.fresh(case), desk.ben)
    assert (done.resolution, done.job_state) == ("difference accepted", "CONFIRMED")


def test_a_declined_request_leaves_the_case_open_and_its_reason_in_the_journal(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    case = desk.fresh(case)
    with pytest.raises(SecondIsTheAsker):
        desk.answer(decline, case, desk.anna, reason="no")
    with pytest.raises(EvidenceMissing):
        desk.answer(decline, case, desk.ben, reason="")
    desk.answer(decline, case, desk.ben, reason="The mail is about another vendor.")
    assert desk.fresh(case).resolved_at is None
    assert desk.world.evidence(job, "case.declined")["reason"] == "The mail is about another vendor."
    assert desk.sending.operation(job).state == "UNKNOWN"


def test_an_own_request_can_be_taken_back(erp: FaultServer) -> None:
    desk = neither(erp)
    _, case = desk.unknown()
    case = desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    case = desk.fresh(case)
    with pytest.raises(NotPermitted):
        desk.answer(withdraw_request, case, desk.ben)
    desk.answer(withdraw_request, case, desk.anna)
    assert [r.outcome for r in desk.requests(case)] == ["withdrawn"]
    with pytest.raises(StaleCase):
        desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())


def test_the_guards_are_repeated_when_the_second_person_says_yes(erp: FaultServer) -> None:
    desk = keyed(erp, retention=3, retention_margin=1)
    job, case = desk.unknown()
    desk.once_allowed(case, VerbName.CONFIRM_NOT_APPLIED)
    desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
    case = desk.fresh(case)
    desk.world.end_role(desk.anna)
    before = desk.snapshot(job)
    with pytest.raises(
        NotAllowedNow, match=r"anna\S+ may not ask for this any more, so nobody seconds it. Decline it."
    ):
        desk.answer(second, case, desk.ben)
    assert desk.snapshot(job) == before


def test_the_late_comer_is_told_who_resolved_it_and_how(erp: FaultServer) -> None:
    desk = neither(erp)
    job, case = desk.unknown()
    desk.act(confirm_with_receipt, case, receipt=receipt())
    before = desk.snapshot(job)
    with pytest.raises(StaleCase) as refused:
        desk.act(
            confirm_not_applied, case, desk.ben, evidence="They wrote so.", source="mail", paper=a_letter()
        )
    assert desk.anna.username in str(refused.value)
    assert "applied, by receipt" in str(refused.value)
    assert desk.snapshot(job) == before


def test_a_marked_send_whose_sender_still_lives_is_not_sent_again_by_a_person() -> None:
    """The worker is given up on after its time to send, but its session lives: suspended, it could wake up and send."""
    with FaultServer(fin) as erp:
        desk = neither(erp)
        job, _ = desk.unknown()
    (sent,) = desk.sending.submissions(job)
    with reading(desk.tenant_id):
        assert not may_still_send(sent)
        given_up_on = Submission(
            may_have_been_sent_at=sent.may_have_been_sent_at,
            closed_at=sent.closed_at,
            outcome="unknown",
            fault=f"{sent.worker_name} stopped after bytes may have left",
            worker_name=sent.worker_name,
            worker_id=sent.worker_id,
        )
        assert may_still_send(given_up_on)
    end_worker(desk.sending.worker)
    with reading(desk.tenant_id):
        assert not may_still_send(given_up_on)
