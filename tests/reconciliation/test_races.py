"""Two people at one case in the same instant, on two real connections."""

from __future__ import annotations

import pytest

from access.refusals import Refused
from reconciliation.actions.outcomes import confirm_not_applied, resubmit_same_key
from reconciliation.actions.owning import take
from reconciliation.actions.receipts import confirm_with_receipt
from reconciliation.actions.seconding import second
from reconciliation.actions.steps import give_up, retry
from reconciliation.actions.working import StaleCase
from reconciliation.kinds import VerbName
from tests.dispatch.faults import FaultServer, fin
from tests.dispatch.world import a_contract, a_keyed_contract
from tests.reconciliation.test_opening import stuck
from tests.reconciliation.world import PATIENT, Desk, a_letter, receipt
from tests.support import at_once
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
ROUNDS = 20


def test_of_two_opposite_answers_one_wins_and_nothing_is_sent() -> None:
    """Anna holds a receipt; at the same time the admin seconds Ben's "it did not happen".

    Both queue on the job's row. Whoever comes second finds the case resolved, and is told by whom and how.
    """
    winners: set[str] = set()
    with FaultServer(*[fin] * ROUNDS) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        rounds = [desk.unknown(f"V-{number}") for number in range(ROUNDS)]
        for number, (job, opened) in enumerate(rounds):
            case = desk.once_allowed(opened, VerbName.CONFIRM_NOT_APPLIED)
            desk.act(
                confirm_not_applied,
                case,
                desk.ben,
                evidence="They wrote so.",
                source="mail",
                paper=a_letter(),
            )
            case = desk.fresh(case)
            held = receipt(receipt_id=f"R-{number}", record=f"V-{number}")
            answers = at_once(
                lambda case=case, held=held: desk.act(confirm_with_receipt, case, receipt=held),
                lambda case=case: desk.answer(second, case, desk.admin),
            )
            (loser,) = [a for a in answers if isinstance(a, Refused)]
            (winner,) = [a for a in answers if not isinstance(a, Refused)]
            closed = desk.fresh(case)
            assert isinstance(loser, StaleCase)
            assert closed.resolved_by is not None
            assert closed.resolved_by.username in str(loser)
            assert closed.resolution in str(loser)
            applied = closed.resolution == "applied, by receipt"
            assert desk.sending.operation(job).state == ("CONFIRMED" if applied else "NOT_APPLIED")
            assert [r.outcome for r in desk.requests(case)] == ["overtaken" if applied else "seconded"]
            winners.add(winner.resolution)
        assert len(erp.received) == ROUNDS
    assert winners <= {"applied, by receipt", "not applied"}


def test_a_receipt_and_the_order_to_send_again_do_not_both_count() -> None:
    """ "It happened" and "send it again" released together: one of them, never both."""
    with FaultServer(*[fin] * 5) as erp:
        desk = Desk.make(erp.url, a_keyed_contract(timeouts=PATIENT, automatic_resubmissions=0))
        for number in range(5):
            job, opened = desk.unknown(f"V-{number}")
            case = desk.once_allowed(opened, VerbName.RESUBMIT)
            held = receipt(receipt_id=f"R-{number}", record=f"V-{number}")
            answers = at_once(
                lambda case=case, held=held: desk.act(confirm_with_receipt, case, receipt=held),
                lambda case=case: desk.act(resubmit_same_key, case, desk.ben, reason="again"),
            )
            assert [isinstance(a, Refused) for a in answers].count(True) == 1
            operation = desk.sending.operation(job)
            assert (operation.state, operation.next_step) in {("CONFIRMED", ""), ("UNKNOWN", "resubmit")}
        assert len(erp.received) == 5


def test_a_request_is_seconded_once() -> None:
    """Two people second the same request together."""
    with FaultServer(fin) as erp:
        desk = Desk.make(erp.url, a_contract(timeouts=PATIENT))
        job, opened = desk.unknown()
        case = desk.once_allowed(opened, VerbName.CONFIRM_NOT_APPLIED)
        desk.act(confirm_not_applied, case, evidence="They wrote so.", source="mail", paper=a_letter())
        case = desk.fresh(case)
        answers = at_once(
            lambda: desk.answer(second, case, desk.ben), lambda: desk.answer(second, case, desk.admin)
        )
    assert [isinstance(a, StaleCase) for a in answers].count(True) == 1
    assert desk.events(job).count("operation.settled") == 1


def test_a_retry_and_a_giving_up_do_not_both_count() -> None:
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    job, item = stuck(desk, ItemState.EXHAUSTED)
    case = desk.happens(job, "retry.exhausted", item=item.pk)
    answers = at_once(
        lambda: desk.act(retry, case, attempts=1, reason="again"),
        lambda: desk.act(give_up, case, desk.ben, reason="enough"),
    )
    assert [isinstance(a, StaleCase) for a in answers].count(True) == 1
    assert desk.fresh(case).resolution in {"tried again", "given up"}


def test_a_case_is_taken_by_one() -> None:
    desk = Desk.make("http://127.0.0.1:9", a_contract())
    case = desk.happens(desk.world.job(), "proposal.expired")
    answers = at_once(lambda: desk.act(take, case), lambda: desk.act(take, case, desk.ben))
    assert [isinstance(a, StaleCase) for a in answers].count(True) == 1
    assert desk.fresh(case).assignee is not None
