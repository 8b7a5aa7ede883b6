"""First workflow, run in memory: no database, no network, no waiting."""

from pathlib import Path

from counterfoil.testing import Fate, Kit, Receiver, Reply, Run, Script, busy

from first_workflow.workflow import RECEIVER, Answer, Entry, sort, workflow

TERMS = Path(__file__).parents[1] / "counterfoil.toml"
TRAVEL = Answer(kind="travel", reason="It is a ticket.")
OFFICE = Answer(kind="office", reason="It is paper.")


def submitted(*lines: str, model: Script, fate: Fate = Fate.OK) -> tuple[Run, Receiver]:
    """A run that has come as far as it goes without people, and its receiver."""
    receiver = Receiver.from_terms(TERMS, RECEIVER, fates=[fate])
    value = {"reference": "R-2026-001", "lines": list(lines)}
    return Kit(workflow).submit(value, provider=model, receivers=[receiver]), receiver


def test_each_line_is_sorted_and_one_record_is_proposed() -> None:
    model = Script(Reply(TRAVEL, tokens_in=40, tokens_out=9), Reply(OFFICE, tokens_in=38, tokens_out=8))
    run, receiver = submitted("A train ticket", "Paper", " Paper ", model=model)

    assert run.state == "AWAITING_APPROVAL"
    assert run.outputs(Entry)[1] == Entry(line="Paper", kind="office", reason="It is paper.")
    assert run.operations[0].body == {"line_1": "travel", "line_2": "office"}
    assert (run.tokens_in, run.tokens_out) == (78, 17)
    assert receiver.effects == []


def test_an_approval_writes_exactly_what_was_proposed() -> None:
    run, receiver = submitted("Paper", model=Script(OFFICE))
    run.approve()

    assert run.state == "CONFIRMED"
    assert [(effect.record, effect.body) for effect in receiver.effects] == [
        ("R-2026-001", {"line_1": "office"}),
    ]


def test_a_busy_model_is_asked_again_for_that_line_only() -> None:
    run, _ = submitted("A train ticket", "Paper", model=Script(TRAVEL, busy(retry_after=30), OFFICE))

    assert [len(item.attempts) for item in run.items(sort)] == [1, 2]
    assert run.state == "AWAITING_APPROVAL"


def test_a_lost_answer_is_looked_up_and_nothing_is_written_twice() -> None:
    run, receiver = submitted("Paper", model=Script(OFFICE), fate=Fate.TIMEOUT_BUT_DONE)
    run.approve()

    assert run.state == "CONFIRMED"
    assert len(receiver.effects) == 1


def test_a_record_that_was_written_meanwhile_voids_the_approval() -> None:
    run, receiver = submitted("Paper", model=Script(OFFICE))
    receiver.records["keyed/records/R-2026-001"] = {"version": 1}
    run.approve()

    assert (run.state, run.why) == ("VALIDATED", "R-2026-001 has been written meanwhile.")
    assert receiver.effects == []


def test_an_input_without_lines_is_refused_with_its_reason() -> None:
    run, _ = submitted("  ", model=Script())

    assert run.state == "FAILED"
    assert [(problem.field, problem.message) for problem in run.problems] == [
        ("lines", "give at least one line"),
    ]
