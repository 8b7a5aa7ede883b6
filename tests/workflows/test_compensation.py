"""What a job's steps made is undone when it ends without its effect: in reverse order, and whatever happens meanwhile.

The workflow keeps files in a folder, so the folder says what stands, and its log in which order things were done.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.utils import timezone

from access.tenancy import acting
from tests.support import eventually, forget_workflows
from tests.workflows import compensated
from tests.workflows.keeping import IN_REVERSE, Keep, a_claim
from workflows import hooks, verification
from workflows.actions.hold import hold_job
from workflows.authoring import BadDefinition, Ctx, Workflow
from workflows.compensation import machine, plan
from workflows.compensation.plan import MACHINE, Standing, StillUndoing
from workflows.engine.engine import Engine
from workflows.locks import lock_job
from workflows.machines import Done, Wait
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)


# --- what is undone, and in which order -------------------------------------------------------------------------


def test_given_up_job_is_undone_from_its_last_result_to_its_first(engine: Engine, keep: Keep) -> None:
    kept = keep()
    kept.wait_until_stuck()
    assert kept.stands() == ["note", "part-1", "part-2", "part-3", "shelf"]

    kept.give_up()
    kept.wait(Standing.FINISHED)

    assert (kept.took(), kept.stands()) == (IN_REVERSE, [])
    assert kept.job().state == "FAILED"
    assert kept.items("part") == [ItemState.COMPENSATED] * 3
    assert kept.items("count") == [ItemState.SUCCEEDED]
    assert kept.events() == [
        "compensation.due",
        "step.compensated",
        "step.compensated",
        "step.compensated",
        "compensation.finished",
    ]
    assert [(e["step"], e["items"]) for e in kept.evidence("step.compensated")] == [
        ("note", 1),
        ("part", 3),
        ("shelf", 1),
    ]
    assert kept.evidence("compensation.finished") == [{"items": 5}]
    assert verification.verify_jobs(job_id=kept.job_id).bad is None


def test_cancelled_job_is_undone_as_well(engine: Engine, keep: Keep) -> None:
    kept = keep()
    kept.wait_until_stuck()
    kept.cancel()
    kept.wait(Standing.FINISHED)
    assert (kept.took(), kept.job().state) == (IN_REVERSE, "CANCELLED")


def test_each_result_is_undone_under_a_key_of_its_own_and_knows_the_one_it_was_made_with(
    engine: Engine, keep: Keep
) -> None:
    kept = keep(parts=2)
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.FINISHED)
    keys = [key for name in ("note", "part-2", "part-1", "shelf") for key in kept.asked(name)]
    made = [kept.item_id(stage, n) for stage, n in (("note", 1), ("part", 2), ("part", 1), ("shelf", 1))]
    assert keys == [f"test-keeping-{kept.job_id}-{item}-undo-1" for item in made]


def test_nothing_is_due_where_nothing_was_made(keep: Keep) -> None:
    kept = keep()
    kept.cancel()
    assert (kept.standing(), kept.events(), kept.items(MACHINE)) == (None, [], [])


def test_nothing_is_undone_while_an_effect_stands(engine: Engine, keep: Keep, monkeypatch: Any) -> None:
    """Somebody above says that something was applied. (With a receiver: tests/dispatch/test_compensation.py.)"""
    kept = keep()
    kept.wait_until_stuck()
    monkeypatch.setattr(hooks, "_effects", [lambda job: True])
    kept.give_up()
    assert (kept.job().state, kept.standing(), kept.events()) == ("FAILED", None, [])
    assert kept.took() == []


def test_a_hold_ends_with_its_job(engine: Engine, keep: Keep) -> None:
    kept = keep()
    kept.wait_until_stuck()
    hold_job(
        tenant_id=kept.tenant.pk, job_id=kept.job_id, person_id=kept.operator.pk, reason="Wait.", now=timezone.now()
    )  # fmt: skip
    kept.cancel()
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE


# --- what goes wrong meanwhile ----------------------------------------------------------------------------------


def test_handler_that_fails_is_called_again_with_the_same_key(engine: Engine, keep: Keep) -> None:
    """Two of them, with something undone between: tries in a row are counted, not all tries."""
    kept = keep()
    kept.tell("busy-note")
    kept.tell("busy-part-2")
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE
    assert [len(kept.asked(n)) for n in ("note", "part-3", "part-2", "part-1")] == [2, 1, 2, 1]
    assert len(set(kept.asked("part-2"))) == 1


def test_handler_that_leaves_a_mess_in_the_session_harms_nobody(engine: Engine, keep: Keep) -> None:
    """It turns autocommit off and takes another role; the next transaction is the machine's own."""
    kept = keep()
    kept.tell("mess-note")
    kept.tell("mess-part-2")
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE
    assert [len(kept.asked(name)) for name in IN_REVERSE] == [1] * 5


def test_crash_before_the_record_calls_the_handler_again_and_nothing_twice_else(
    keep: Keep, engine: Engine, monkeypatch: Any
) -> None:
    """The process ends between a handler's return and the transaction that records it."""
    kept = keep()
    kept.wait_until_stuck()
    engine.request_stop()
    engine.join()
    kept.give_up()
    with monkeypatch.context() as crash:
        crash.setattr(machine._Walk, "record", _dies)
        with pytest.raises(SystemExit):
            machine.run(a_claim(kept))
    assert (kept.took(), kept.items("note")) == (["note"], [ItemState.SUCCEEDED])

    assert machine.run(a_claim(kept)) == Done()
    assert kept.took() == IN_REVERSE
    assert [len(kept.asked(n)) for n in IN_REVERSE] == [2, 1, 1, 1, 1]
    assert len(set(kept.asked("note"))) == 1


def test_worker_that_was_taken_for_dead_records_nothing(keep: Keep, engine: Engine) -> None:
    kept = keep()
    kept.wait_until_stuck()
    engine.request_stop()
    engine.join()
    kept.give_up()
    first = a_claim(kept)
    a_claim(kept)  # somebody else's
    assert machine.run(first) == Wait()
    assert (kept.took(), kept.events()) == ([], ["compensation.due"])


def test_many_results_are_undone_a_few_at_a_time_in_their_order(
    engine: Engine, keep: Keep, monkeypatch: Any
) -> None:
    monkeypatch.setattr(machine, "LOOKED_AHEAD", 3)
    kept = keep(parts=10)
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.FINISHED)
    assert kept.took() == ["note", *(f"part-{n}" for n in range(10, 0, -1)), "shelf"]
    assert [(e["step"], e["items"]) for e in kept.evidence("step.compensated")] == [
        ("note", 1),
        ("part", 10),
        ("shelf", 1),
    ]


def test_long_undoing_gives_its_slot_back_between_two_results(
    keep: Keep, engine: Engine, monkeypatch: Any
) -> None:
    kept = keep()
    kept.wait_until_stuck()
    engine.request_stop()
    engine.join()
    kept.give_up()
    monkeypatch.setattr(machine, "AT_A_TIME", 0.0)
    answers = [machine.run(a_claim(kept)) for _ in range(6)]
    assert [type(a) for a in answers] == [Wait] * 5 + [Done]
    assert kept.took() == IN_REVERSE


def test_late_result_of_a_cancelled_item_is_waited_for_and_undone(engine: Engine, keep: Keep) -> None:
    """Part 2 is inside its handler when the job is cancelled, and makes something before it ends."""
    kept = keep(slow=[2])
    eventually(lambda: "made part-2" in kept.lines and kept.items("part").count(ItemState.SUCCEEDED) == 2)
    kept.cancel()
    assert kept.items("part")[1] is ItemState.CANCELLED
    eventually(lambda: kept.items(MACHINE) == [ItemState.BACKING_OFF], what="a machine that looks again")
    assert (kept.took(), kept.standing()) == ([], Standing.UNDER_WAY)

    kept.tell("go")
    kept.wait(Standing.FINISHED)

    assert kept.took() == ["part-3", "part-2", "part-2-late", "part-1", "shelf"]
    assert kept.items("part") == [ItemState.COMPENSATED] * 3
    assert [line for line in kept.lines if "without a result" in line] == [
        f"undo part-2 without a result test-keeping-{kept.job_id}-{kept.item_id('part', 2)}-undo-1"
    ]


def test_compensation_waits_for_the_revision_that_knows_how(
    engine: Engine, keep: Keep, settings: Any, monkeypatch: Any
) -> None:
    """Neither the process that cancels nor the worker has it; then it is deployed again."""
    kept = keep()
    kept.wait_until_stuck()
    monkeypatch.setattr(machine, "LOOK_AGAIN", machine.SOON)
    settings.COUNTERFOIL_REVISION_GRACE_SECONDS = 0.0  # the worker has said that it has it
    settings.COUNTERFOIL_WORKFLOWS = []
    forget()
    kept.cancel()
    kept.wait(Standing.BLOCKED)
    assert (kept.events(), kept.took()) == (["compensation.blocked"], [])

    settings.COUNTERFOIL_WORKFLOWS = ["tests.workflows.compensated"]
    forget()
    kept.wait(Standing.FINISHED)
    assert kept.took() == IN_REVERSE
    assert kept.events()[:3] == ["compensation.blocked", "compensation.resumed", "compensation.due"]


# --- running it again -------------------------------------------------------------------------------------------


def test_job_is_not_run_again_before_all_of_it_is_undone(engine: Engine, keep: Keep) -> None:
    kept = keep()
    kept.tell("refuse-part-2")
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.STOPPED)
    with acting(kept.tenant.pk), pytest.raises(StillUndoing, match=r"is being undone \(2 of 5\)"):
        plan.refuse_redrive(lock_job(kept.job_id))


def test_job_that_is_undone_may_be_run_again(engine: Engine, keep: Keep) -> None:
    kept = keep()
    kept.wait_until_stuck()
    kept.give_up()
    kept.wait(Standing.FINISHED)
    with acting(kept.tenant.pk):
        plan.refuse_redrive(lock_job(kept.job_id))


# --- what is refused at import ----------------------------------------------------------------------------------


def test_compensation_that_takes_something_else_is_refused() -> None:
    workflow = Workflow("unclear", revision="1", input=compensated.Plan)

    @workflow.step()
    def make(ctx: Ctx, value: compensated.Plan) -> compensated.Note:
        raise NotImplementedError

    with pytest.raises(BadDefinition, match=r"what compensates make takes \(ctx, output\)"):

        @workflow.compensate(make)
        def wrong(ctx: Ctx, shelf: compensated.Shelf) -> None: ...

    with pytest.raises(BadDefinition, match="compensated once, and is a step of it"):
        workflow.compensate(compensated.shelf)(compensated.take_shelf)


def forget() -> None:
    forget_workflows()


def _dies(*_: object) -> None:
    raise SystemExit(9)
