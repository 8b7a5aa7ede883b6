"""The table of verbs of an outcome: from which state of the operation each is open, and what is said where it is not.

The rows of `RECEIVERS.md` 3.4, each against every state.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from access.refusals import NotPermitted
from access.tenancy import reading
from dispatch.models import Observation
from dispatch.states import OperationState
from reconciliation.actions.outcomes import accept_conflict
from reconciliation.actions.seconding import second
from reconciliation.kinds import KINDS, VerbName
from reconciliation.models import Case, CaseKind
from reconciliation.situation import look_at
from reconciliation.verbs import RULES, needs_second, verbs_of
from tests.dispatch.faults import FaultServer, answers, fin
from tests.dispatch.world import RECEIPT, a_contract, a_keyed_contract, a_lookup_contract, as_json, as_owner
from tests.reconciliation.pages import address, as_person, html_of
from tests.reconciliation.world import PATIENT, Desk

pytestmark = pytest.mark.django_db(transaction=True)
S, V = OperationState, VerbName

OPEN_FROM: dict[VerbName, set[OperationState]] = {
    V.LOOK_UP: set(S),
    V.CONFIRM_WITH_RECEIPT: {S.UNKNOWN},
    V.CONFIRM_NOT_APPLIED: {S.UNKNOWN},
    V.RESUBMIT: {S.UNKNOWN, S.NOT_APPLIED},
    V.ACCEPT_CONFLICT: {S.CONFLICTED},
    V.REOPEN: {S.CONFIRMED, S.REFUSED, S.NOT_APPLIED},
}
NOT_FROM_ELSEWHERE: dict[VerbName, str] = {
    V.CONFIRM_WITH_RECEIPT: "The outcome is not unknown: it is ",
    V.CONFIRM_NOT_APPLIED: "The outcome is not unknown: it is ",
    V.RESUBMIT: "Only what is unknown, or known not to have been applied, can be sent again.",
    V.ACCEPT_CONFLICT: "The receiver's answer does not differ (any more).",
    V.REOPEN: "Only what was settled can be reopened: ",
}


@pytest.fixture
def erp() -> Iterator[FaultServer]:
    with FaultServer(fin) as server:
        yield server


def test_each_verb_is_open_from_its_states_and_says_why_from_no_other(erp: FaultServer) -> None:
    desk = Desk.make(erp.url, a_lookup_contract(timeouts=PATIENT, proves_after=None))
    job, case = desk.unknown()
    desk.let_time_pass(job.pk)
    as_owner("dispatch_operation", "next_step = %s", [""])
    with reading(desk.tenant_id):
        for state in S:
            as_owner("dispatch_operation", "state = %s", [state])
            # As a contradicted case asks: of that kind a reopening is looked at.
            situation = look_at(job=desk.sending.fresh(job), case=Case(pk=case.pk, tenant_id=desk.tenant_id,
                kind=CaseKind.CONTRADICTED, job=job, operation_id=case.operation_id))  # fmt: skip
            for verb, states in OPEN_FROM.items():
                said = RULES[verb].why_not(situation)
                expected = "" if state in states else NOT_FROM_ELSEWHERE[verb]
                assert (said.startswith(expected), bool(said)) == (True, bool(expected)), (verb, state, said)


@pytest.mark.parametrize(
    ("contract", "needs", "said"),
    [
        (a_contract(timeouts=PATIENT), True, "will not deduplicate this"),
        (a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0), False, "deduplicated until"),
    ],
)
def test_a_resubmission_takes_two_where_the_receiver_would_not_recognise_it(
    erp: FaultServer, contract: object, needs: bool, said: str
) -> None:
    desk = Desk.make(erp.url, contract)  # type: ignore[arg-type]
    _, case = desk.unknown()
    verb = desk.verb(case, V.RESUBMIT)
    assert (verb.needs_second, said in verb.sentence) == (needs, True)


def test_what_two_people_answer_for_is_always_two_peoples(erp: FaultServer) -> None:
    desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
    job, case = desk.unknown()
    with reading(desk.tenant_id):
        situation = look_at(job=job, case=case)
        two = {v for v in set(V) - {V.SET_ASIDE} if needs_second(v, situation)}
    assert two == {V.CONFIRM_NOT_APPLIED, V.ACCEPT_CONFLICT, V.REOPEN, V.RESUBMIT}


def test_every_kind_offers_only_what_answers_it_and_what_is_resolved_only_its_reopening(
    erp: FaultServer,
) -> None:
    assert {V.REOPEN: [k for k, t in KINDS.items() if V.REOPEN in t.verbs]} == {
        V.REOPEN: [CaseKind.CONTRADICTED]
    }
    desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
    job, case = desk.unknown()
    with reading(desk.tenant_id):
        case.resolved_at = case.opened_at
        assert [v.name for v in verbs_of(look_at(job=job, case=case))] == [V.REOPEN]


@pytest.mark.parametrize(
    ("rules", "second_by"), [({"waives_approval": True}, "ben"), ({"quorum": 2}, "admin")]
)
def test_a_difference_is_shown_to_both_kept_and_above_a_limit_let_stand_by_an_admin(
    rules: dict[str, object], second_by: str
) -> None:
    other = answers(200, as_json({**RECEIPT, "fields": {"limit": "1.00"}}))
    with FaultServer(other) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, case = desk.unknown()
    desk.world.policy(**rules)
    shown = "approved <b>4800.00</b>, done <b>1.00</b>"
    assert shown in html_of(as_person(desk.anna).get(address(desk, "case", case.pk)))
    assert shown in html_of(as_person(desk.anna).get(address(desk, "case-accept", case.pk)))
    desk.act(accept_conflict, case, reason="Agreed by telephone.", difference=desk.page(case).difference)
    case = desk.fresh(case)
    if second_by == "admin":
        with pytest.raises(NotPermitted, match="Only an admin"):
            desk.answer(second, case, desk.ben)
        assert "Only an admin" in html_of(as_person(desk.ben).get(address(desk, "case", case.pk)))
    done = desk.answer(second, case, getattr(desk, second_by))
    assert (done.resolution, done.job_state) == ("difference accepted", "CONFIRMED")
    with reading(desk.tenant_id):
        kept = Observation.objects.get(operation__job=job, kind="variance").detail
    assert kept == "limit: 4800.00 was approved, 1.00 was done"
