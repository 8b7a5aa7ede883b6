"""The kit, from a submission to a proposal: what is run, what is tried again, what stops."""

from __future__ import annotations

from decimal import Decimal

import pytest

from counterfoil.testing import (
    Kit,
    KitFailure,
    Receiver,
    Reply,
    Run,
    Script,
    Unscripted,
    busy,
    refused,
    timeout,
)
from tests.counterfoil.contracts import contract
from tests.counterfoil.workflows import Count, Kind, Lines, Loud, Sorted, sheets, sort
from workflows.authoring import BadDefinition, Prompt, Workflow
from workflows.kinds import AttemptOutcome
from workflows.states import ItemState, JobState
from workflows.submissions import InvalidSubmission

BEFORE = ["job.received", "input.validated"]
PROPOSED = [*BEFORE, "stage.closed", "stage.closed", "proposal.frozen", "approval.asked"]
TRAVEL, OFFICE = Kind(kind="travel"), Kind(kind="office")


def submitted(*lines: str, script: Script | None = None, **more: object) -> Run:
    return Kit(sheets).submit(
        {"reference": "S-1", "lines": list(lines), **more},
        provider=script or Script(lambda _: TRAVEL),
        receivers=[Receiver("ledger", contract("keyed"))],
    )


def test_a_run_comes_to_its_proposal_with_every_result_in_order() -> None:
    script = Script(Reply(TRAVEL, 900, 40, Decimal("0.002")), Reply(OFFICE, 800, 30, Decimal("0.001")))
    run = submitted("A train", "A pen", script=script)

    assert (run.state, run.events, run.title) == (JobState.AWAITING_APPROVAL, PROPOSED, "Sheet S-1")
    assert [line.text for line in run.output(Lines).lines] == ["A train", "A pen"]
    assert run.outputs(Sorted) == [
        Sorted(text="A train", kind="travel", attempt=1),
        Sorted(text="A pen", kind="office", attempt=1),
    ]
    assert run.outputs(Loud) == [Loud(text="A TRAIN"), Loud(text="A PEN")]
    assert run.output(Count) == Count(travel=1, office=1)
    assert [o.body for o in run.operations] == [{"travel": "1", "office": "1"}]
    assert (run.tokens_in, run.tokens_out, run.cost) == (1700, 70, Decimal("0.003"))
    assert script.prompts == ["task: sort\nA train", "task: sort\nA pen"]
    assert [c.prompt.request_key for c in script.calls] == ["test-sheets-1-3", "test-sheets-1-4"]


def test_an_input_of_another_shape_makes_no_job() -> None:
    with pytest.raises(InvalidSubmission) as wrong:
        Kit(sheets).submit({"reference": "S-1", "lines": "none", "colour": "red"})
    assert {p.field for p in wrong.value.problems} == {"lines", "colour"}


def test_what_the_workflow_itself_refuses_fails_the_job_with_its_reasons() -> None:
    run = submitted()
    assert (run.state, run.events) == (JobState.FAILED, ["job.received", "input.refused"])
    assert [(p.field, p.message) for p in run.problems] == [("lines", "give at least one line")]
    with pytest.raises(KitFailure, match="There is no proposal"):
        _ = run.proposal


def test_what_can_pass_is_tried_again_and_the_clock_moves() -> None:
    script = Script(busy(retry_after=120), timeout(), TRAVEL)
    run = submitted("A train", script=script)
    (item,) = run.items(sort)
    assert [a.outcome for a in item.attempts] == [
        AttemptOutcome.RETRYABLE, AttemptOutcome.RETRYABLE, AttemptOutcome.SUCCEEDED,
    ]  # fmt: skip
    assert (item.attempts[1].began_at - item.attempts[0].ended_at).total_seconds() >= 120
    assert {c.prompt.request_key for c in script.calls} == {"test-sheets-1-3"}, "one key for all attempts"
    assert run.state is JobState.AWAITING_APPROVAL


def test_an_answer_of_another_shape_is_asked_for_again_and_was_paid_for() -> None:
    script = Script(Reply("Sure, here it is!", 10, 5), Reply('{"kind": "boat"}', 10, 5), Reply(TRAVEL, 10, 5))
    run = submitted("A train", script=script)
    (item,) = run.items(sort)
    assert [a.error for a in item.attempts] == ["pydantic_core._pydantic_core.ValidationError"] * 2 + [""]
    assert (run.tokens_in, run.tokens_out) == (30, 15)


def test_attempts_that_are_used_up_stop_the_item_and_keep_the_others() -> None:
    run = submitted("A train", "never")
    (stopped,) = run.stopped
    assert (stopped.key, stopped.state, stopped.used) == ("2", ItemState.EXHAUSTED, 3)
    assert (run.state, run.events) == (JobState.VALIDATED, [*BEFORE, "retry.exhausted"])
    assert run.why == "sort 2 stopped after 3 attempts: not today"
    assert run.outputs(Sorted) == [Sorted(text="A train", kind="travel", attempt=1)]
    with pytest.raises(KitFailure, match="count has not been opened: sort 2 stopped"):
        run.output(Count)


def test_a_status_that_cannot_pass_stops_the_item_at_once_and_a_grant_lets_it_try_again() -> None:
    run = submitted("A train", script=Script(refused(400), TRAVEL))
    assert [(i.state, i.used) for i in run.stopped] == [(ItemState.REFUSED, 1)]
    assert run.events == [*BEFORE, "item.refused"]
    run.grant()
    assert (run.state, run.stopped) == (JobState.AWAITING_APPROVAL, [])
    assert "attempts.granted" in run.events
    with pytest.raises(KitFailure, match="Nothing has stopped"):
        run.grant()


def test_a_question_without_an_answer_fails_the_test_and_is_no_attempt() -> None:
    with pytest.raises(Unscripted, match=r"The 2\. question has no answer in the script: task: sort\nA pen"):
        submitted("A train", "A pen", script=Script(TRAVEL))


def test_an_assertion_about_a_prompt_fails_the_test_and_is_not_tried_again() -> None:
    def answer(prompt: Prompt) -> Kind:
        assert "invoice" in prompt.text, "only invoices"
        return TRAVEL

    with pytest.raises(Unscripted, match="does not accept this question: only invoices"):
        submitted("A train", script=Script(answer))


def test_a_draft_that_cannot_be_frozen_says_why() -> None:
    run = submitted("A train", amount="12.345")
    assert (run.state, run.events[-1]) == (JobState.VALIDATED, "proposal.refused")
    assert "has more decimals than EUR has" in run.why


def test_a_receiver_that_the_test_does_not_give_is_told_as_in_an_installation() -> None:
    run = Kit(sheets).submit({"reference": "S-1", "lines": ["A"]}, provider=Script(TRAVEL))
    assert run.why == 'There is no receiver "ledger" here.'


def test_a_workflow_without_a_proposal_is_refused() -> None:
    with pytest.raises(BadDefinition, match="has no propose"):
        Kit(Workflow("endless", revision="1", input=Lines))


def test_a_step_is_asked_for_by_its_name_too() -> None:
    run = submitted("A train")
    assert run.items("sort") == run.items(sort)
    assert run.items("nothing-like-it") == []
    with pytest.raises(KitFailure, match=r"No step of test-sheets returns"):
        run.output(Run)
