"""`Kit` and `Run`: what a test holds in its hands."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from pydantic import BaseModel

from counterfoil.testing.memory import (
    BEGINNING,
    Attempt,
    Entry,
    Item,
    KitFailure,
    Memory,
    Policy,
    Proposed,
    Stage,
)
from counterfoil.testing.operations import Operation
from counterfoil.testing.proposing import Proposing
from counterfoil.testing.providers import Script
from counterfoil.testing.receivers import Receiver
from counterfoil.testing.sending import Sending
from counterfoil.testing.stepping import Stepping
from dispatch.states import OperationState
from workflows import submissions
from workflows.authoring import BadDefinition, Problem, Workflow
from workflows.authoring.asking import Provider
from workflows.authoring.steps import Step
from workflows.states import BEFORE_SENDING, STUCK_ITEM_STATES, ItemState, JobState

T = TypeVar("T")
Named = Step | str
"""A step, or its name as the console shows it in addresses: `sort-lines` for a function `sort_lines`."""


class Kit:
    """Runs a workflow in memory.

        run = Kit(invoices, policy=Policy(quorum=2)).submit({"reference": "R-1"}, receivers=[ledger])

    `policy` is the approval policy that the installation would have under the workflow's name for it. `now` is when
    the kit's clock begins.
    """

    def __init__(
        self, workflow: Workflow, *, policy: Policy | None = None, now: datetime = BEGINNING
    ) -> None:
        if not workflow.approval:
            raise BadDefinition(f"{workflow.name} has no propose, so its jobs would never end.")
        self._workflow, self._policy, self._now = workflow, policy or Policy(), now

    def submit(
        self,
        value: BaseModel | dict[str, Any],
        *,
        provider: Provider | None = None,
        receivers: Iterable[Receiver] = (),
    ) -> Run:
        """Submit an input and run it as far as it goes by itself: to a decision, an end, or something that stopped.

        `value` is what the API would be sent. Raises `workflows.submissions.InvalidSubmission`, with its `problems`,
        where the API would answer 422: then there is no job.
        """
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        text = submissions.check(self._workflow, plain)
        model = self._workflow.input.model_validate_json(text)
        memory = Memory(
            workflow=self._workflow,
            text=text,
            reference=self._workflow.reference_of(model) if self._workflow.reference_of else "",
            policy=self._policy,
            provider=provider or Script(),
            receivers={r.name: r for r in receivers},
            now=self._now,
        )
        describe = self._workflow.describe
        return Run(memory, describe(model) if describe else self._workflow.title or self._workflow.name)


class Run:
    """One job. Made by `Kit.submit`; what is asked of it afterwards runs as far as it goes by itself, too."""

    def __init__(self, memory: Memory, title: str) -> None:
        self._memory = memory
        self._stepping, self._proposing, self._sending = Stepping(memory), Proposing(memory), Sending(memory)
        self._stepping.proposes = self._proposing.freeze
        self.title = title
        memory.move(JobState.RECEIVED, "job.received", actor="submitter")
        self._stepping.begin()
        self._go()

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
    def stopped(self) -> list[Item]:
        """The items that used up their attempts or cannot work, and stand in the way."""
        stages = [s for s in self._memory.stages if not s.closed]
        return [i for s in stages for i in s.items if i.state in STUCK_ITEM_STATES]

    @property
    def why(self) -> str:
        """What the job waits for, in a sentence; empty where it has ended."""
        if self._memory.ended:
            return ""
        if self.stopped:
            item = self.stopped[0]
            return f"{item.step} {item.key} stopped after {item.used} attempts: {item.error}"
        if self.state is JobState.AWAITING_APPROVAL:
            return f"awaits approval {len(self._proposal().approvals) + 1} of {self._memory.policy.quorum}"
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

    # -- what people do ---------------------------------------------------------------------------------------
    def approve(self, by: str = "") -> Run:
        """Approve as one more manager; the last of the quorum has it sent."""
        self._proposing.approve(by)
        return self._go()

    def reject(self, reason: str = "no") -> Run:
        """Reject: the job ends as CANCELLED."""
        self._proposing.reject(reason)
        return self._go()

    def ask_for_changes(self, reason: str = "not like this") -> Run:
        """Send it back: the job is VALIDATED until `propose_again`."""
        self._proposing.ask_for_changes(reason)
        return self._go()

    def propose_again(self) -> Run:
        """Freeze the saved draft anew, after a change request, an expiry or an objection."""
        self._proposing.propose_again()
        return self._go()

    def grant(self, attempts: int = 1, *, step: Named = "") -> Run:
        """Let every item that stopped (of one step, where one is named) try again, as an operator does."""
        name = step.name if isinstance(step, Step) else step
        stuck = [i for i in self.stopped if name in ("", i.step)]
        if not stuck:
            raise KitFailure(f"Nothing has stopped: {self.why or self.state}")
        for item in stuck:
            item.state, item.attempts_limit, item.reported = ItemState.READY, item.used + attempts, False
            self._memory.record("attempts.granted", step=item.step, key=item.key, attempts=attempts)
        return self._go()

    def cancel(self, reason: str = "not wanted any more") -> Run:
        """Cancel as an admin: at once before anything was sent, as a request after."""
        if self._memory.ended:
            raise KitFailure(f"The job has ended as {self.state}.")
        if self.state in BEFORE_SENDING:
            self._memory.move(JobState.CANCELLED, "job.cancelled", actor="admin", reason=reason)
        else:
            self._memory.cancel_requested = True
            self._memory.record("cancel.requested", reason=reason)
            self._sending.ask_to_stop()
        return self._go()

    def pass_time(self, time: timedelta) -> Run:
        """Let the time pass: a proposal may expire."""
        self._memory.now += time
        return self._go()

    # -- inside -----------------------------------------------------------------------------------------------
    def _go(self) -> Run:
        self._proposing.expire()
        self._stepping.go()
        self._sending.go()
        return self

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
