"""What a run can be asked: where it stands, what happened, what came out."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, TypeVar

from counterfoil.testing.memory import Attempt, Entry, Item, KitFailure, Memory, Proposed, Stage
from counterfoil.testing.operations import Operation
from counterfoil.testing.undoing import Undoing
from counterfoil.testing.waiting import Waiting, Waits
from dispatch.states import OperationState
from workflows.authoring import Event, Problem, Sleep
from workflows.authoring.steps import Step
from workflows.states import STUCK_ITEM_STATES, ItemState, JobState

T = TypeVar("T")
Named = Step | str
"""A step, or its name: `sort-lines` for a function `sort_lines`."""


class Results:
    """The part of a run that only looks."""

    def __init__(self, memory: Memory, title: str) -> None:
        self._memory, self.title = memory, title
        self._waits, self._undoing = Waits(memory), Undoing(memory)

    # -- what is the case -------------------------------------------------------------------------------------
    @property
    def state(self) -> JobState:
        """Where the job stands."""
        return JobState(self._memory.state)

    @property
    def reference(self) -> str:
        """The job's business reference, empty where the workflow names none."""
        return self._memory.reference

    @property
    def now(self) -> datetime:
        """The kit's clock."""
        return self._memory.now

    @property
    def journal(self) -> list[Entry]:
        """Everything that happened, as the job's journal has it. What a case notes is an installation's."""
        return list(self._memory.journal)

    @property
    def events(self) -> list[str]:
        """The names of the journal's entries, in order."""
        return [entry.event for entry in self._memory.journal]

    @property
    def problems(self) -> list[Problem]:
        """What the workflow's own validation refused."""
        found = [e for e in self._memory.journal if e.event == "input.refused"]
        return [Problem(p["field"], p["message"]) for e in found for p in e.evidence["problems"]]

    @property
    def waiting(self) -> list[Waiting]:
        """What items wait for that no worker does: a time, an event, an answer."""
        return self._waits.waiting()

    @property
    def held(self) -> bool:
        """Whether the job is held, its deadline having passed."""
        return self._memory.held

    @property
    def stopped(self) -> list[Item]:
        """The items that used up their attempts or cannot work, and stand in the way."""
        stages = [s for s in self._memory.stages if not s.closed]
        stuck = [i for s in stages for i in s.items if i.state in STUCK_ITEM_STATES]
        return stuck + self._undoing.stopped

    @property
    def why(self) -> str:
        """What the job waits for, in a sentence; empty where it has ended."""
        if self._memory.ended and not self.stopped:
            return ""
        if self.stopped:
            item = self.stopped[0]
            return f"{item.step} {item.key} stopped after {item.used} attempts: {item.error}"
        if self.state is JobState.AWAITING_APPROVAL:
            return f"awaits approval {len(self._proposal().approvals) + 1} of {self._memory.policy.quorum}"
        if self.waiting:
            return "; ".join(_waits_for(w) for w in self.waiting)
        notes = [
            f"{o.label}: {o.note}"
            for o in self.operations
            if o.note and o.state is not OperationState.CONFIRMED
        ]
        told = [str(e.evidence["why"]) for e in self._memory.journal if "why" in e.evidence]
        return "; ".join(notes) or (told[-1] if told else f"the job is {self.state}")

    # -- what came out ----------------------------------------------------------------------------------------
    def items(self, step: Named) -> list[Item]:
        """The work items of a step, with their attempts, in input order; empty where it has not been opened."""
        stage = self._memory.stage(step.name if isinstance(step, Step) else step)
        return list(stage.items) if stage is not None else []

    def output(self, shape: type[T]) -> T:
        """The saved result of the step that returns a `shape`."""
        stage = self._stage_of(shape)
        done = [i for i in stage.items if i.state is ItemState.SUCCEEDED]
        if stage.step is None or not done:
            raise KitFailure(f"{stage.name} has no result: {self.why}")
        found: T = stage.step.output.validate_json(done[0].output or "null")
        return found

    def outputs(self, shape: type[T]) -> list[T]:
        """The saved results of the `each` step that returns a `shape`, in input order."""
        stage = self._stage_of(shape)
        done = [i for i in stage.items if i.state is ItemState.SUCCEEDED]
        return [stage.step.output.validate_json(i.output or "null") for i in done if stage.step is not None]

    @property
    def proposal(self) -> Proposed:
        """The newest proposal, with its draft and operations."""
        return self._proposal()

    @property
    def operations(self) -> list[Operation]:
        """The newest proposal's operations, in order; empty before there is one."""
        return list(self._memory.proposal.operations) if self._memory.proposal is not None else []

    @property
    def attempts(self) -> list[Attempt]:
        """Every attempt of every step, in the order in which they ended."""
        return self._memory.attempts()

    @property
    def tokens_in(self) -> int:
        """What all attempts used, those that failed with them."""
        return sum(a.usage.tokens_in for a in self.attempts)

    @property
    def tokens_out(self) -> int:
        """Likewise."""
        return sum(a.usage.tokens_out for a in self.attempts)

    @property
    def cost(self) -> Decimal:
        """What all attempts cost, as far as it is known, those that failed with them."""
        return sum((a.usage.cost for a in self.attempts), Decimal(0))

    def _proposal(self) -> Proposed:
        if self._memory.proposal is None:
            raise KitFailure(f"There is no proposal: {self.why or self.state}")
        return self._memory.proposal

    def _stage_of(self, shape: Any) -> Stage:
        step = next((s for s in self._memory.workflow.steps if s.result_type == shape), None)
        if step is None:
            raise KitFailure(f"No step of {self._memory.workflow.name} returns {shape}.")
        stage = self._memory.stage(step.name)
        if stage is None:
            raise KitFailure(f"{step.name} has not been opened: {self.why or self.state}")
        return stage


def _waits_for(waiting: Waiting) -> str:
    wait, until = waiting.wait, f" until {waiting.due_at:%Y-%m-%d %H:%M}" if waiting.due_at else ""
    if isinstance(wait, Sleep):
        return f"{waiting.step} {waiting.key} sleeps{until}"
    what = f"the event {wait.key}" if isinstance(wait, Event) else f"an answer to: {wait.text}"
    return f"{waiting.step} {waiting.key} waits for {what}{until}"
