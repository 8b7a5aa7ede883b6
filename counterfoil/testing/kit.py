"""`Kit` and `Run`: what a test holds in its hands."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from counterfoil.testing.memory import BEGINNING, Item, KitFailure, Memory, Policy
from counterfoil.testing.proposing import Proposing
from counterfoil.testing.providers import Script
from counterfoil.testing.receivers import Receiver
from counterfoil.testing.results import Named, Results
from counterfoil.testing.sending import Sending
from counterfoil.testing.stepping import Stepping
from counterfoil.testing.ways_on import WaysOn
from workflows import submissions
from workflows.authoring import BadDefinition, File, Workflow
from workflows.authoring.asking import Provider
from workflows.authoring.steps import Step
from workflows.states import BEFORE_SENDING, JobState


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
        files: Iterable[File] = (),
    ) -> Run:
        """Submit an input and run it as far as it goes by itself: to a decision, an end, or something that stopped.

        `value` is what the API would be sent; `files` are those that it names by their digest. Raises `workflows.submissions.InvalidSubmission`, with its `problems`,
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
            files={hashlib.sha256(f.content).hexdigest(): f for f in files},
            now=self._now,
            deadline_at=None if self._workflow.deadline is None else self._now + self._workflow.deadline,
        )
        describe = self._workflow.describe
        return Run(memory, describe(model) if describe else self._workflow.title or self._workflow.name)


class Run(Results):
    """One job. Made by `Kit.submit`; what is asked of it afterwards runs as far as it goes by itself, too."""

    def __init__(self, memory: Memory, title: str) -> None:
        super().__init__(memory, title)
        self._stepping, self._proposing = Stepping(memory, self._waits), Proposing(memory)
        self._sending, self._ways_on = Sending(memory), WaysOn(memory, self._stepping)
        self._stepping.proposes = self._proposing.freeze
        memory.move(JobState.RECEIVED, "job.received", actor="submitter")
        self._stepping.begin()
        self._go()

    # -- a manager --------------------------------------------------------------------------------------------
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

    def run_again(self, first: Named = "", reason: str = "it has moved on") -> Run:
        """Run a step and all behind it again (or all of them), after the same; a new proposal follows."""
        self._ways_on.run_again(_name(first), reason)
        return self._go()

    # -- an operator ------------------------------------------------------------------------------------------
    def grant(self, attempts: int = 1, *, step: Named = "", key: str = "") -> Run:
        """Let every item that stopped (of this step and key, where they are named) try again."""
        self._ways_on.grant(self._stopped(step, key), attempts)
        return self._go()

    def skip(self, *, step: Named = "", key: str = "") -> Run:
        """Go on without the one item that stopped (of this step and key), where its step is skippable."""
        self._ways_on.skip(self._one_stopped(step, key))
        return self._go()

    def correct(self, value: object, *, step: Named = "", key: str = "", attempts: int = 1) -> Run:
        """Try the one item that stopped again on another input.

        `value`: for an item of a fan-out its element; for a single step a dict of those arguments that change.
        """
        self._ways_on.correct(self._one_stopped(step, key), value, attempts)
        return self._go()

    def give_up(self, reason: str = "it will not work") -> Run:
        """End the job as FAILED before anything was sent."""
        self._ways_on.give_up(reason)
        return self._go()

    def redrive(self, attempts: int = 5) -> Run:
        """Let a failed job, of which nothing was applied, go on from what was saved."""
        if self._ways_on.redrive(attempts):
            self._proposing.freeze(self._proposing.saved_draft())
        return self._go()

    def release(self) -> Run:
        """Lift the hold that a deadline left; there is no deadline after it."""
        if not self._memory.held:
            raise KitFailure("The job is not held.")
        self._memory.held = False
        self._memory.record("job.released")
        return self._go()

    # -- others -----------------------------------------------------------------------------------------------
    def answer(self, value: object, *, step: Named = "", key: str = "") -> Run:
        """Answer the question that waits (of this step and key). A model, or what the API would be sent.

        Raises `workflows.submissions.InvalidSubmission` for another shape; the question stays.
        """
        self._waits.answer(value, step=_name(step), key=key)
        return self._go()

    def event(self, key: str, value: object) -> Run:
        """Have an event come from outside. One of another shape is noted, and the wait goes on."""
        self._waits.come(key, value)
        return self._go()

    def wake(self) -> Run:
        """Let the time pass until the next wait is over: who slept goes on, what did not come stops its item."""
        self._waits.wake()
        return self._go()

    def pass_time(self, time: timedelta) -> Run:
        """Let the time pass: waits end, a proposal may expire, a deadline come."""
        self._memory.now += time
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

    # -- inside -----------------------------------------------------------------------------------------------
    def _go(self) -> Run:
        self._proposing.expire()
        self._stepping.go()
        self._sending.go()
        self._undoing.go()
        return self

    def _stopped(self, step: Named, key: str) -> list[Item]:
        found = [i for i in self.stopped if _name(step) in ("", i.step) and key in ("", i.key)]
        if not found:
            raise KitFailure(f"Nothing has stopped: {self.why or self.state}")
        return found

    def _one_stopped(self, step: Named, key: str) -> Item:
        found = self._stopped(step, key)
        if len(found) > 1:
            several = ", ".join(f"{i.step} {i.key}" for i in found)
            raise KitFailure(f"Say which one, by step and key: {several} have stopped.")
        return found[0]


def _name(step: Named) -> str:
    return step.name if isinstance(step, Step) else step
