"""What an operator does about what stopped: more attempts, another input, going on without it, or starting again."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from counterfoil.testing.memory import Item, KitFailure, Memory
from counterfoil.testing.stepping import Stepping
from dispatch.states import OperationState
from workflows import corrections
from workflows.authoring.steps import Step
from workflows.kinds import StageKind
from workflows.runs import in_the_way
from workflows.states import ItemState, JobState


class WaysOn:
    """Sends items and jobs on."""

    def __init__(self, memory: Memory, stepping: Stepping) -> None:
        self._memory, self._stepping = memory, stepping

    def grant(self, items: list[Item], attempts: int) -> None:
        """Try again, up to so many times more."""
        for item in items:
            self._put_back(item, attempts)
            self._memory.record("attempts.granted", stage=item.step, key=item.key, attempts=attempts)

    def skip(self, item: Item) -> None:
        """Go on without an item, where its step allows it."""
        step = self._step(item)
        if step is None or step.kind is not StageKind.EACH:
            raise KitFailure("There is no going on without it: only an item of a fan-out can be left out.")
        if not step.skippable:
            raise KitFailure(f"{step.name} is not skippable: its step does not say skippable=True.")
        item.state = ItemState.SKIPPED
        self._memory.record("item.skipped", stage=item.step, key=item.key)

    def correct(self, item: Item, value: object, attempts: int) -> None:
        """Try again on another input. Raises `InvalidCorrection` or `NothingCorrected` where that will not do."""
        step = self._step(item)
        if step is None:
            raise KitFailure("A job's input stays as it was submitted; submit another.")
        given = json.dumps(_plain(value))
        if step.kind is StageKind.EACH:
            corrected = corrections.of_element(step, before=item.element or "null", given=given)
            item.element = corrected.value
        else:
            named = set(corrections.names_in(given))
            before = {p.name: self._stepping.text_of(p, item) for p in step.parameters if p.name in named}
            kept = json.dumps(item.correction) if item.correction else ""
            corrected = corrections.of_arguments(step, kept=kept, before=before, given=given)
            item.correction = json.loads(corrected.value)
        self._put_back(item, attempts)
        told = {"stage": item.step, "key": item.key, "fields": list(corrected.fields), "attempts": attempts}
        self._memory.record("item.corrected", **told)

    def give_up(self, reason: str) -> None:
        """End a job of which nothing was sent."""
        if self._memory.state not in (JobState.RECEIVED, JobState.VALIDATED, JobState.READY_TO_COMMIT):
            raise KitFailure(f"The job is {self._memory.state}; it cannot simply be given up.")
        self._memory.move(JobState.FAILED, "job.given_up", actor="operator", reason=reason)

    def redrive(self, attempts: int) -> bool:
        """Let a failed job go on from what was saved. Whether its draft has to be frozen anew for that."""
        memory = self._memory
        if memory.state != JobState.FAILED:
            raise KitFailure(f"The job is {memory.state}; only a failed job is redriven.")
        if not any(e.state is JobState.VALIDATED for e in memory.journal):
            raise KitFailure("The job was never valid: submit another input.")
        if any(o.state is OperationState.CONFIRMED for p in memory.proposals for o in p.operations):
            raise KitFailure("Something of the job was applied; it is not run again.")
        every = [i for s in memory.stages for i in s.items]
        if any(i.state is ItemState.COMPENSATED for i in every):
            raise KitFailure("What steps of the job made was undone when it failed: submit it anew.")
        cut = [s for s in memory.stages if s.cut_short]
        memory.move(JobState.VALIDATED, "job.redriven", actor="operator", stages=[s.name for s in cut])
        for stage in cut:
            stage.closed, stage.cut_short, stage.met_at = False, False, None
            for item in stage.items:
                if item.state is ItemState.CANCELLED:
                    self._put_back(item, attempts)
        return not cut

    def run_again(self, first: str, reason: str) -> None:
        """Run a step and all behind it again, once the proposal that they led to is closed."""
        memory = self._memory
        drafted = any(s.kind is StageKind.PROPOSE and s.closed for s in memory.stages)
        if memory.state != JobState.VALIDATED or memory.held or not (memory.runs or drafted):
            held = " and held" if memory.held else ""
            raise KitFailure(f"The job is {memory.state}{held}; steps run again once a proposal is closed.")
        step = memory.workflow.step_named(first) if first else memory.workflow.steps[0]
        if step is None:
            raise KitFailure(f"There is no step {first}.")
        steps = [s for s in memory.stages if s.step is not None and s.kind is not StageKind.SET_ASIDE]
        begun = {s.name for s in steps if any(i.attempts for i in s.items)}
        done = {s.name: s.closed for s in steps}
        if said := in_the_way(memory.workflow, done, begun & memory.workflow.compensations.keys(), step):
            raise KitFailure(f"{step.name} cannot be run again. {said}")
        aside = memory.set_aside(step)
        memory.record("steps.run_again", stage=step.name, aside=aside, reason=reason)
        self._stepping.open(step)

    def _put_back(self, item: Item, attempts: int) -> None:
        item.state, item.attempts_limit, item.reported = ItemState.READY, item.used + attempts, False
        item.first_started_at = item.due_at = None

    def _step(self, item: Item) -> Step | None:
        return self._memory.workflow.step_named(item.step)


def _plain(value: object) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return value
