"""The kit, from a decision to an outcome: each fate of a send under each kind of contract."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from counterfoil.testing import Fate, Kit, KitFailure, Policy, Receiver, Run, Script
from dispatch.contracts import Action, Contract
from dispatch.presets import PRESETS
from dispatch.states import OperationState
from tests.counterfoil.contracts import contract
from tests.counterfoil.workflows import Kind, sheets
from workflows.states import JobState

S = OperationState
SENT = ["operation.submitted", "submission.closed"]


def ledger(name: str = "keyed", *fates: Fate | str, **changes: Any) -> Receiver:
    return Receiver("ledger", contract(name, **changes), fates=fates)


def proposed(receiver: Receiver, *, policy: Policy | None = None, **more: Any) -> Run:
    value = {"reference": "S-1", "lines": ["A train"], **more}
    script = Script(lambda _: Kind(kind="travel"))
    return Kit(sheets, policy=policy).submit(value, provider=script, receivers=[receiver])


def since_approval(run: Run) -> list[str]:
    return run.events[run.events.index("proposal.approved") + 1 :]


def test_an_approval_sends_what_was_proposed_and_keeps_the_receipt() -> None:
    receiver = ledger()
    run = proposed(receiver)
    assert (receiver.effects, receiver.requests) == ([], []), "nothing leaves before somebody has approved"
    run.approve()
    (operation,) = run.operations
    assert (run.state, operation.state, operation.receipt) == (JobState.CONFIRMED, S.CONFIRMED, "ledger-1")
    assert [(e.record, e.body, e.key) for e in receiver.effects] == [
        ("A-1", {"travel": "1", "office": "0"}, operation.key)
    ]
    assert receiver.requests == [operation.request]
    assert since_approval(run) == [*SENT, "operation.observed", "outcome.confirmed"]
    assert (run.why, run.proposal.closing) == ("", "sent")


def test_a_quorum_is_made_of_different_people() -> None:
    run = proposed(ledger(), policy=Policy(quorum=2))
    run.approve("mia")
    assert (run.state, run.events[-1]) == (JobState.AWAITING_APPROVAL, "decision.recorded")
    assert run.why == "awaits approval 2 of 2"
    with pytest.raises(KitFailure, match="mia has approved this already"):
        run.approve("mia")
    assert run.approve("max").state is JobState.CONFIRMED


def test_a_policy_that_waives_the_approval_sends_at_once() -> None:
    run = proposed(ledger(), policy=Policy(waives_approval=True))
    assert (run.state, "approval.waived" in run.events) == (JobState.CONFIRMED, True)


def test_a_rejection_ends_the_job_with_nothing_sent() -> None:
    receiver = ledger()
    run = proposed(receiver).reject("too much")
    assert (run.state, run.events[-1], receiver.requests) == (JobState.CANCELLED, "proposal.rejected", [])
    with pytest.raises(KitFailure, match="The job is CANCELLED, so nothing awaits a decision"):
        run.approve()


def test_asked_for_changes_it_is_proposed_again_with_another_key_and_no_step_runs_twice() -> None:
    run = proposed(ledger())
    first, attempts = run.operations[0], len(run.attempts)
    assert run.ask_for_changes("wrong sheet").state is JobState.VALIDATED
    run.propose_again()
    assert (run.proposal.number, run.state) == (2, JobState.AWAITING_APPROVAL)
    assert run.operations[0].key != first.key
    assert len(run.attempts) == attempts


def test_nobody_who_decides_in_time_lets_the_proposal_expire() -> None:
    run = proposed(ledger())
    run.pass_time(timedelta(hours=23))
    assert run.state is JobState.AWAITING_APPROVAL
    run.pass_time(timedelta(hours=1))
    assert (run.state, run.events[-1]) == (JobState.VALIDATED, "proposal.expired")
    assert run.propose_again().approve().state is JobState.CONFIRMED


def test_a_fact_that_changed_voids_the_proposal() -> None:
    receiver = ledger()
    run = proposed(receiver)
    receiver.records["keyed/records/blocked"] = {"since": "today"}
    run.approve()
    assert (run.state, run.proposal.closing, receiver.requests) == (JobState.VALIDATED, "voided", [])
    assert since_approval(run) == ["send.check_failed", "proposal.voided"]
    assert run.why == "Sheet S-1 is blocked."


def test_a_source_of_another_version_voids_the_proposal_and_the_same_one_does_not() -> None:
    receiver = ledger()
    receiver.records["keyed/records/prices"] = {"version": 1}
    assert proposed(receiver).approve().state is JobState.CONFIRMED
    moved = ledger()
    run = proposed(moved)
    moved.records["keyed/records/prices"] = {"version": 2}
    run.approve()
    assert (run.state, run.proposal.closing, moved.requests) == (JobState.VALIDATED, "voided", [])
    assert since_approval(run) == ["send.check_failed", "proposal.voided"]
    assert run.why == "price list is at version 2 now; version 1 was approved."


@pytest.mark.parametrize(
    ("name", "fate", "job", "operation", "effects", "sends"),
    [
        ("keyed", Fate.TIMEOUT_BUT_DONE, JobState.CONFIRMED, S.CONFIRMED, 1, 1),
        ("keyed", Fate.NEVER_ANSWERS, JobState.CONFIRMED, S.CONFIRMED, 1, 2),
        ("keyed", Fate.NO_CONNECTION, JobState.CONFIRMED, S.CONFIRMED, 1, 1),
        ("keyed", Fate.BUSY, JobState.CONFIRMED, S.CONFIRMED, 1, 2),
        ("keyed", Fate.BROKEN, JobState.CONFIRMED, S.CONFIRMED, 1, 2),
        ("keyed", Fate.LATER, JobState.CONFIRMED, S.CONFIRMED, 1, 1),
        ("keyed", Fate.REFUSE, JobState.FAILED, S.REFUSED, 0, 1),
        ("keyed", Fate.DIFFERS, JobState.NEEDS_RECONCILIATION, S.CONFLICTED, 1, 1),
        ("lookup", Fate.TIMEOUT_BUT_DONE, JobState.CONFIRMED, S.CONFIRMED, 1, 1),
        ("lookup", Fate.NEVER_ANSWERS, JobState.CONFIRMED, S.CONFIRMED, 1, 2),
        ("lookup", Fate.DUPLICATE, JobState.NEEDS_RECONCILIATION, S.CONFLICTED, 2, 1),
        ("neither", Fate.TIMEOUT_BUT_DONE, JobState.NEEDS_RECONCILIATION, S.UNKNOWN, 1, 1),
        ("neither", Fate.NEVER_ANSWERS, JobState.NEEDS_RECONCILIATION, S.UNKNOWN, 0, 1),
        ("neither", Fate.LATER, JobState.NEEDS_RECONCILIATION, S.UNKNOWN, 1, 1),
        ("neither", Fate.BUSY, JobState.CONFIRMED, S.CONFIRMED, 1, 2),
    ],
)  # fmt: skip
def test_each_fate_comes_to_what_the_contract_allows(
    name: str, fate: Fate, job: JobState, operation: OperationState, effects: int, sends: int
) -> None:
    receiver = ledger(name, fate)
    run = proposed(receiver).approve()
    assert (run.state, run.operations[0].state) == (job, operation)
    assert (len(receiver.effects), len(receiver.requests)) == (effects, sends)
    assert len({r.body for r in receiver.requests}) == 1, "every send is of the same bytes"


def test_a_fate_can_follow_from_the_request() -> None:
    receiver = Receiver(
        "ledger", contract("keyed"), fates=lambda r: Fate.REFUSE if r.record == "A-2" else Fate.OK
    )
    run = proposed(receiver, records=["A-1", "A-2", "A-3"]).approve()
    assert [o.state for o in run.operations] == [S.CONFIRMED, S.REFUSED, S.PREPARED]
    assert (run.state, run.events[-1]) == (JobState.NEEDS_RECONCILIATION, "outcome.partial")
    assert run.why == "operation 2: answered 422; operation 3: operation 2 before it was refused"


def test_independent_operations_do_not_wait_for_each_other() -> None:
    receiver = Receiver(
        "ledger", contract("keyed"), fates=lambda r: Fate.REFUSE if r.record == "A-1" else Fate.OK
    )
    run = proposed(receiver, records=["A-1", "A-2"], independent=True).approve()
    assert [o.state for o in run.operations] == [S.REFUSED, S.CONFIRMED]
    assert run.state is JobState.NEEDS_RECONCILIATION


def test_a_cancel_after_the_first_send_stops_the_rest_and_says_what_stands() -> None:
    receiver = ledger("neither", Fate.OK, Fate.NEVER_ANSWERS)
    run = proposed(receiver, records=["A-1", "A-2", "A-3"]).approve()
    assert run.state is JobState.NEEDS_RECONCILIATION
    run.cancel()
    assert [o.state for o in run.operations] == [S.CONFIRMED, S.UNKNOWN, S.WITHDRAWN]
    assert run.state is JobState.NEEDS_RECONCILIATION, "nobody knows about the second one"


def test_a_cancel_before_anything_was_sent_ends_the_job() -> None:
    receiver = ledger()
    run = proposed(receiver).cancel()
    assert (run.state, receiver.requests) == (JobState.CANCELLED, [])
    with pytest.raises(KitFailure, match="has ended as CANCELLED"):
        run.cancel()


def test_a_receiver_that_never_answers_to_a_connection_ends_the_test_instead_of_going_on_for_ever() -> None:
    receiver = Receiver("ledger", contract("neither"), fates=lambda _: Fate.NO_CONNECTION)
    with pytest.raises(KitFailure, match="operation 1 was sent 50 times and has no outcome: no connection"):
        proposed(receiver).approve()


def test_a_contract_that_compares_nothing_cannot_be_told_to_differ() -> None:
    bare: Contract = contract("keyed")
    action = bare.actions["put"].model_copy(update={"record_path": "", "echo_path": ""})
    receiver = Receiver("ledger", bare.model_copy(update={"actions": {"put": action}}), fates=[Fate.DIFFERS])
    with pytest.raises(KitFailure, match="compares nothing"):
        proposed(receiver).approve()


def test_a_mail_and_a_form_are_rendered_as_they_are_sent_and_come_to_what_their_contracts_say() -> None:
    """The bytes are the connector's own; what a lost answer comes to follows from the contract, as over JSON."""
    mapping = {
        "from": "desk@acme.example",
        "to": "a@b.example",
        "subject": "{title}",
        "text": "Travel: {body.travel}",
    }
    mail = Action(method="SEND", path="/", body=mapping, receipt_required=False)
    post = Receiver(
        "ledger", PRESETS["smtp"].contract.model_copy(update={"actions": {"put": mail}}), ["timeout but done"]
    )
    run = proposed(post)
    assert run.approve().state is JobState.NEEDS_RECONCILIATION
    (operation,) = run.operations
    assert operation.request.target == "smtps://ledger.test/"
    assert "Subject: Write A-1\n" in operation.body["text"]
    assert len(post.effects) == 1

    form = Action(method="POST", path="/charges", body_as="form", echo_path=".", echo_fields=("travel",))
    for fate, state in (("ok", S.CONFIRMED), ("differs", S.CONFLICTED)):
        shop = Receiver("ledger", contract("keyed", actions={"put": form}), [fate])
        (operation,) = proposed(shop).approve().operations
        assert (operation.body, operation.state) == ({"travel": "1", "office": "0"}, state)
