"""Compensation: what a workflow's own steps made is undone when its job ends without its effect, last step first."""

from __future__ import annotations

from datetime import timedelta

from counterfoil.testing.memory import JOB_ID, TENANT_ID, Attempt, Item, KitFailure, Memory, Stage
from counterfoil.testing.receivers import answering
from dispatch.states import OperationState
from workflows.authoring import Ctx
from workflows.authoring.steps import Compensation
from workflows.engine.handling import MACHINE_RETRY
from workflows.engine.outcomes import failed
from workflows.states import STUCK_ITEM_STATES, ItemState, JobState

S = OperationState
STANDS = (S.CONFIRMED, S.CONFLICTED, S.UNKNOWN, S.SUBMITTED)
WITHOUT_RESULT = (ItemState.CANCELLED, ItemState.SKIPPED, *STUCK_ITEM_STATES)


class Undoing:
    """Undoes a job's results once it has ended without its effect."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._begun = False
        memory.on_state.append(self._begin)
        self._machine = Item(0, "workflows.undo", "1", 0, attempts_limit=MACHINE_RETRY.attempts)

    @property
    def stopped(self) -> list[Item]:
        """The undoing itself, where a handler failed for good; a person has to see to the rest."""
        return [self._machine] if self._machine.state in STUCK_ITEM_STATES else []

    def go(self) -> None:
        """Undo what is left, as far as it goes."""
        memory, left = self._memory, self._left()
        while self._begun and left and not self.stopped:
            stage, item = left.pop(0)
            if not self._undo(stage, item):
                return
            if stage.name not in {s.name for s, _ in left}:
                memory.record("step.compensated", step=stage.name)
            if not left:
                memory.record("compensation.finished")

    def _begin(self, state: JobState) -> None:
        if state in (JobState.FAILED, JobState.CANCELLED) and not self._effect_stands() and self._left():
            self._begun = True
            steps = list(dict.fromkeys(stage.name for stage, _ in self._left()))
            self._memory.record("compensation.due", steps=steps)

    def _effect_stands(self) -> bool:
        return any(o.state in STANDS for p in self._memory.proposals for o in p.operations)

    def _left(self) -> list[tuple[Stage, Item]]:
        """What is still to be undone: last step first, in it the last input first."""
        compensations = self._memory.workflow.compensations
        return [
            (stage, item)
            for stage in reversed(self._memory.stages)
            if stage.name in compensations
            for item in reversed(stage.items)
            if item.state is ItemState.SUCCEEDED
            or (compensations[stage.name].takes_none and item.state in WITHOUT_RESULT and item.attempts)
        ]

    def _undo(self, stage: Stage, item: Item) -> bool:
        """Whether the result was undone; tried again like any work of the machine, and stopped when that is used up."""
        compensation = self._memory.workflow.compensations[stage.name]
        self._machine.used = 0
        while True:
            self._machine.used += 1
            began = self._memory.now
            try:
                self._call(compensation, stage, item)
            except KitFailure:
                raise
            except (Exception, SystemExit, GeneratorExit) as error:
                claim = self._memory.claim(stage, self._machine)
                result = failed(
                    claim, error, retry=MACHINE_RETRY, usage=None, started=began, now=self._memory.now
                )
                self._machine.attempts.append(
                    Attempt(self._machine.used, result.outcome, began, self._memory.now, result.error_class,
                            result.error_message)
                )  # fmt: skip
                if result.state in STUCK_ITEM_STATES:
                    self._stop(result.state)
                    return False
                self._memory.wait_until(self._memory.now + timedelta(seconds=result.wait_seconds or 0.0))
                continue
            item.state = ItemState.COMPENSATED
            return True

    def _stop(self, state: ItemState) -> None:
        self._machine.state = state
        event = "retry.exhausted" if state is ItemState.EXHAUSTED else "item.refused"
        told = {"stage": self._machine.step, "attempts": self._machine.used, "why": self._machine.error}
        self._memory.record(event, **told)

    def _call(self, compensation: Compensation, stage: Stage, item: Item) -> None:
        memory = self._memory
        made_with = memory.request_key(item)
        ctx = Ctx(
            tenant_id=TENANT_ID,
            job_id=JOB_ID,
            reference=memory.reference,
            item_key=item.key,
            attempt=self._machine.used,
            request_key=f"{made_with}-undo-{len(item.attempts)}",
            undoes=made_with,
            provider=memory.provider,
            reader=memory.read_file,
        )
        assert stage.step is not None, "a validation is never compensated"
        given = item.output if item.state is ItemState.SUCCEEDED else None
        output = None if given is None else stage.step.output.validate_json(given)
        with answering(memory.receivers):
            compensation.handler(ctx, output)
