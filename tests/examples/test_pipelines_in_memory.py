"""A pipeline that comes with the project, in the test kit: as a stranger would test theirs."""

from __future__ import annotations

from typing import Any

from counterfoil.testing import Fate, Kit, Receiver, Run, Script, busy
from dispatch.presets import PRESETS
from examples.vendor_onboarding import Assessment, vendor_onboarding
from tests.examples.test_vendor_onboarding import a_change
from workflows.authoring import Prompt
from workflows.states import JobState

RECORD: dict[str, Any] = {
    "version": 41,
    "suspended": False,
    "fields": {
        "name": "Fennmark Castings",
        "credit_limit": "20000.00",
        "currency": "EUR",
        "payment_terms": "30 days net",
    },
}


def assess(prompt: Prompt) -> Assessment:
    assert prompt.text.startswith("task: vendor-change\n")
    return Assessment(credit_limit="48200.00", payment_terms="45 days net", reason="They pay in time.")


def submitted(contract: str, *fates: Fate, model: Script | None = None) -> tuple[Run, Receiver]:
    change = a_change(erp=contract)
    path = f"{contract}/vendors/{change['vendor_id']}"
    name = f"astrel-erp-{contract}"
    receiver = Receiver(name, PRESETS[contract].contract, fates=fates, records={path: RECORD})
    run = Kit(vendor_onboarding).submit(change, provider=model or Script(assess), receivers=[receiver])
    return run, receiver


def test_a_vendor_change_is_proposed_from_what_the_receiver_and_the_model_said() -> None:
    run, receiver = submitted("keyed")
    assert run.state is JobState.AWAITING_APPROVAL
    assert run.operations[0].body == {"credit_limit": "48200.00", "payment_terms": "45 days net"}
    assert run.proposal.draft.sources[0].version == "41"
    assert receiver.effects == []


def test_a_lost_answer_is_one_effect_with_a_key_and_a_question_without() -> None:
    keyed, receiver = submitted("keyed", Fate.TIMEOUT_BUT_DONE)
    assert (keyed.approve().state, len(receiver.effects)) == (JobState.CONFIRMED, 1)
    neither, receiver = submitted("neither", Fate.TIMEOUT_BUT_DONE)
    assert neither.approve().state is JobState.NEEDS_RECONCILIATION
    assert (len(receiver.effects), len(receiver.requests)) == (1, 1)


def test_a_record_that_moved_on_voids_the_approval() -> None:
    run, receiver = submitted("keyed")
    receiver.records.update({path: {**RECORD, "version": 42} for path in receiver.records})
    run.approve()
    assert run.state is JobState.VALIDATED
    assert run.why.endswith("is at version 42 now; version 41 was approved.")


def test_a_busy_model_is_asked_again() -> None:
    answers = Script(busy(retry_after=60), {"credit_limit": "1", "payment_terms": "x", "reason": "y"})
    run, _ = submitted("keyed", model=answers)
    assert (run.state, len(run.items("assess")[0].attempts)) == (JobState.AWAITING_APPROVAL, 2)
