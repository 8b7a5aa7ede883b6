"""The kit where a run needs somebody: waits, what stopped, what is undone, a deadline, a file."""

from __future__ import annotations

import hashlib
from datetime import timedelta

import pytest

from counterfoil.testing import Fate, Kit, KitFailure, Receiver, Run, Script, Unscripted
from counterfoil.testing.memory import BEGINNING
from dispatch.states import OperationState
from tests.counterfoil.contracts import contract
from tests.counterfoil.more_workflows import (
    BOOKED,
    BROKEN,
    Packed,
    Read,
    Shipment,
    Slot,
    Woken,
    letters,
    parcels,
    rooms,
    strict,
    waits,
)
from tests.counterfoil.workflows import Kind, Line, sheets
from workflows.authoring import Event, File, FileKind, Question, Sleep, Workflow
from workflows.corrections import InvalidCorrection, NothingCorrected
from workflows.states import ItemState, JobState
from workflows.submissions import InvalidSubmission

DONE, REFUSED = ItemState.SUCCEEDED, ItemState.REFUSED


def ledger(*fates: Fate) -> Receiver:
    return Receiver("ledger", contract("keyed"), fates=fates)


def run_of(workflow: Workflow, *parts: str, receiver: Receiver | None = None, **more: object) -> Run:
    value = {"reference": "P-1", "parts": list(parts or ["ok"]), **more}
    return Kit(workflow).submit(value, receivers=[receiver or ledger()])


def states(run: Run, step: str) -> list[ItemState]:
    return [item.state for item in run.items(step)]


# -- parts that are enough ---------------------------------------------------------------------------------------------
def test_a_share_of_a_fan_out_is_enough_and_the_rest_is_listed() -> None:
    run = run_of(parcels, "ok", "stop", "later", "stop")
    assert states(run, "pack") == [DONE, REFUSED, DONE, REFUSED]
    assert run.outputs(Packed) == [Packed(text="ok"), Packed(text="later")]
    closed = next(e for e in run.journal if e.event == "stage.closed")
    assert closed.evidence["failed"] == {"count": 2, "keys": ["2", "4"]}
    assert run.state is JobState.AWAITING_APPROVAL
    assert "item.refused" not in run.events, "nobody has to see to what was not needed"


def test_what_takes_longer_than_the_patience_is_left_out_as_late() -> None:
    run = run_of(parcels, "ok", "much later")
    assert states(run, "pack") == [ItemState.SUCCEEDED, ItemState.SKIPPED]
    closed = next(e for e in run.journal if e.event == "stage.closed")
    assert closed.evidence["late"] == {"count": 1, "keys": ["2"]}
    assert run.now - BEGINNING == timedelta(seconds=30)


def test_too_few_for_the_need_stop_the_job_and_a_skip_does_not_make_them_enough() -> None:
    run = run_of(parcels, "stop", "stop", "ok")
    assert run.events[-2:] == ["item.refused", "item.refused"]
    assert [i.key for i in run.stopped] == ["1", "2"]


# -- what stopped ------------------------------------------------------------------------------------------------------
def test_a_skipped_item_is_left_out_of_what_later_steps_get() -> None:
    run = run_of(strict, "ok", "stop")
    run.skip()
    assert run.outputs(Packed) == [Packed(text="ok")]
    assert run.events[-4:] == ["item.skipped", "stage.closed", "proposal.frozen", "approval.asked"]


def test_what_is_not_skippable_says_so() -> None:
    run = run_of(strict, "stop")
    run.skip()
    assert run.why == "propose-strict 1 stopped after 1 attempts: nothing is packed"
    with pytest.raises(KitFailure, match="only an item of a fan-out can be left out"):
        run.skip()
    sorted_ = Kit(sheets).submit({"reference": "S", "lines": ["permanent"]}, receivers=[ledger()])
    with pytest.raises(KitFailure, match="sort is not skippable"):
        sorted_.skip()


def test_a_corrected_element_is_tried_again() -> None:
    script = Script(lambda _: Kind(kind="travel"))
    run = Kit(sheets).submit(
        {"reference": "S", "lines": ["permanent", "A pen"]}, provider=script, receivers=[ledger()]
    )
    with pytest.raises(NothingCorrected):
        run.correct(Line(number=1, text="permanent"))
    with pytest.raises(InvalidCorrection):
        run.correct({"number": "one"})
    run.correct(Line(number=1, text="A train"))
    assert (run.state, run.events[2:4]) == (JobState.AWAITING_APPROVAL, ["item.refused", "item.corrected"])
    assert script.prompts[-1] == "task: sort\nA train"


def test_a_single_steps_argument_can_be_corrected() -> None:
    run = run_of(strict, fails=True)
    assert run.why == "propose-strict 1 stopped after 1 attempts: nothing to propose"
    run.correct({"parcel": {"reference": "P-2", "parts": [], "sleep_minutes": 1, "fails": False}})
    assert run.operations[0].record == "P-2"


def test_of_several_that_stopped_one_has_to_be_named() -> None:
    run = run_of(strict, "stop", "stop")
    with pytest.raises(
        KitFailure, match="Say which one, by step and key: pack-all 1, pack-all 2 have stopped"
    ):
        run.skip()
    run.skip(key="1").skip(key="2")
    assert states(run, "pack-all") == [ItemState.SKIPPED, ItemState.SKIPPED]


def test_a_job_that_was_given_up_is_redriven_from_what_was_saved() -> None:
    run = run_of(strict, "ok", "stop")
    attempts = len(run.attempts)
    run.give_up()
    assert (run.state, states(run, "pack-all")) == (
        JobState.FAILED, [ItemState.SUCCEEDED, ItemState.CANCELLED],
    )  # fmt: skip
    run.redrive(attempts=2)
    assert run.events[-2:] == ["job.redriven", "item.refused"]
    assert len(run.attempts) == attempts + 1, "what had succeeded is not run again"


def test_a_job_that_was_refused_everything_is_redriven_with_a_new_proposal() -> None:
    run = run_of(strict, receiver=ledger(Fate.REFUSE)).approve()
    assert run.state is JobState.FAILED
    run.redrive()
    assert (run.state, run.proposal.number) == (JobState.AWAITING_APPROVAL, 2)
    run.approve()
    assert run.state is JobState.CONFIRMED
    with pytest.raises(KitFailure, match="The job is CONFIRMED; only a failed job is redriven"):
        run.redrive()


def test_steps_are_run_again_from_the_one_that_is_chosen() -> None:
    run = run_of(strict, "ok", "ok")
    with pytest.raises(
        KitFailure, match="The job is AWAITING_APPROVAL; steps run again once a proposal is closed"
    ):
        run.run_again()
    run.ask_for_changes()
    before = len(run.attempts)
    with pytest.raises(KitFailure, match="There is no step pack-more"):
        run.run_again("pack-more")
    run.run_again("propose-strict")
    assert (run.state, run.proposal.number, len(run.attempts)) == (JobState.AWAITING_APPROVAL, 2, before + 1)
    run.ask_for_changes()
    assert run.run_again().approve().state is JobState.CONFIRMED
    made = run_of(rooms, "a")
    made.ask_for_changes()
    with pytest.raises(KitFailure, match="made is undone if the job ends without effect"):
        made.run_again()


# -- waits -------------------------------------------------------------------------------------------------------------
def test_a_run_sleeps_asks_and_waits_for_an_event_one_after_the_other() -> None:
    run = run_of(waits)
    (asleep,) = run.waiting
    assert (asleep.step, asleep.wait) == ("rest", Sleep(timedelta(hours=1)))
    assert run.why == "rest 1 sleeps until 2026-01-05 10:00"

    run.wake()
    assert run.output(Woken).at == BEGINNING + timedelta(hours=1)
    assert isinstance(run.waiting[0].wait, Question)
    assert run.why.startswith("choose 1 waits for an answer to: When may P-1 come? until 2026-01-07")

    with pytest.raises(InvalidSubmission):
        run.answer({"week": "3"})
    run.answer({"day": "Monday"})
    assert run.output(Slot) == Slot(day="Monday")
    assert run.waiting[0].wait == Event("shipment P-1", within=timedelta(days=3))

    with pytest.raises(KitFailure, match=r"Nobody waits for the event 'x'; waited for: shipment P-1\."):
        run.event("x", {})
    run.event("shipment P-1", {"track": "T"})
    assert run.events[-1] == "event.misfit"
    run.event("shipment P-1", Shipment(tracking="T-9"))
    assert run.output(Shipment) == Shipment(tracking="T-9")
    assert (run.state, run.waiting) == (JobState.AWAITING_APPROVAL, [])
    assert [e for e in run.events if e in ("wait.began", "question.answered", "event.received")] == [
        "wait.began", "wait.began", "question.answered", "wait.began", "event.received",
    ]  # fmt: skip


def test_what_does_not_come_in_its_time_stops_the_item_and_a_grant_asks_again() -> None:
    run = run_of(waits).wake()
    run.pass_time(timedelta(days=2))
    assert (run.events[-1], run.waiting) == ("item.refused", [])
    assert "nobody gave one. More attempts ask again: When may P-1 come?" in run.why
    run.grant()
    assert isinstance(run.waiting[0].wait, Question)


def test_nothing_wakes_where_nothing_sleeps() -> None:
    with pytest.raises(KitFailure, match="Nothing waits for a time"):
        run_of(strict).wake()
    with pytest.raises(
        KitFailure, match="Say which question is answered, by step and key; such questions: none"
    ):
        run_of(strict).answer({})


def test_a_deadline_holds_what_is_still_being_prepared() -> None:
    run = run_of(parcels, "much later", "much later")
    assert (run.held, run.events[-1]) == (True, "deadline.passed")
    assert run.now - BEGINNING == timedelta(hours=2)
    run.release()
    assert (run.held, run.events[-1]) == (False, "retry.exhausted")
    with pytest.raises(KitFailure, match="The job is not held"):
        run.release()


# -- what is undone ----------------------------------------------------------------------------------------------------
@pytest.fixture(autouse=True)
def nothing_booked() -> None:
    BOOKED.clear()
    BROKEN.clear()


def test_a_job_without_effect_undoes_what_its_steps_made_last_first() -> None:
    run = run_of(rooms, "a", "b")
    assert sorted(BOOKED.values()) == ["a", "b", "hall"]
    run.reject()
    assert BOOKED == {}
    assert run.events[-5:] == [
        "proposal.rejected", "compensation.due", "step.compensated", "step.compensated", "compensation.finished",
    ]  # fmt: skip
    assert [e.evidence["step"] for e in run.journal if e.event == "step.compensated"] == [
        "book-room",
        "book-hall",
    ]
    assert states(run, "book-room") == [ItemState.COMPENSATED] * 2
    assert states(run, "list-rooms") == [ItemState.SUCCEEDED]


def test_a_job_with_an_effect_or_with_doubt_undoes_nothing() -> None:
    run = run_of(rooms, "a").approve()
    assert (run.state, len(BOOKED)) == (JobState.CONFIRMED, 2)
    receiver = Receiver("ledger", contract("neither"), fates=[Fate.NEVER_ANSWERS])
    doubt = run_of(rooms, "c", receiver=receiver).approve().cancel()
    assert (doubt.operations[0].state, "compensation.due" in doubt.events) == (OperationState.UNKNOWN, False)


def test_an_undoing_that_fails_is_tried_again_and_stops_when_that_is_used_up() -> None:
    BROKEN.extend(["once", "twice"])
    assert run_of(rooms, "a").reject().events[-1] == "compensation.finished"
    BROKEN.extend(["for ever"] * 10)
    run = run_of(rooms, "a").reject()
    assert (run.events[-1], list(BOOKED.values())) == ("retry.exhausted", ["hall"])
    assert run.why == "workflows.undo 1 stopped after 10 attempts: the door is locked"


# -- files -------------------------------------------------------------------------------------------------------------
def test_a_step_reads_the_file_that_the_input_names() -> None:
    letter = File("letter.txt", FileKind.TEXT, b"four words of text")
    digest = hashlib.sha256(letter.content).hexdigest()
    value = {"reference": "L-1", "letter": digest}
    assert Kit(letters).submit(value, files=[letter], receivers=[ledger()]).output(Read) == Read(words=4)
    with pytest.raises(Unscripted, match="which the test does not give"):
        Kit(letters).submit(value, receivers=[ledger()])
