"""What follows from an answer or a look-up: the operation's state, its next step, and where the job belongs."""

from __future__ import annotations

from datetime import datetime, timedelta

from counterfoil.testing.memory import Memory
from counterfoil.testing.operations import Operation, Submission, is_never_made_again
from dispatch.classification import Outcome, Reading
from dispatch.joining import Standing, derive, joined
from dispatch.requests import local_path
from dispatch.sights import Found, Sight, read_sight
from dispatch.states import NextStep, OperationState
from workflows import states
from workflows.states import ENDED, JobState

S = OperationState


class Settling:
    """Writes down what became of sends, and derives the job from it."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        memory.on_state.append(self._withdraw_unsent)

    # -- what a send came to ----------------------------------------------------------------------------------
    def close(
        self, operation: Operation, submission: Submission, reading: Reading, status: int | None
    ) -> None:
        memory = self._memory
        submission.outcome, submission.fault, submission.status = reading.outcome, reading.fault, status
        submission.receipt, submission.closed_at = reading.receipt_id, memory.now
        memory.record(
            "submission.closed", operation=operation.label, submission=submission.number,
            outcome=reading.outcome.value, status=status, fault=reading.fault,
        )  # fmt: skip
        operation.note_marks()
        if reading.outcome in (Outcome.APPLIED, Outcome.CONFLICTED):
            applied = reading.outcome is Outcome.APPLIED
            self._observed(operation, "answer", "applied" if applied else "differs", proves=applied)
        self._settle(operation, reading)

    def _settle(self, operation: Operation, reading: Reading) -> None:
        memory = self._memory
        state = joined(s.outcome for s in operation.counting() if s.outcome is not None)
        if state is S.UNKNOWN:
            step = operation.decide(now=memory.now, cancelled=memory.cancel_requested, reading=reading)
            operation.move(state, step.kind, step.at, step.why)
        elif state is S.PREPARED:
            self._prepare_again(operation, reading)
        elif state is S.SUBMITTED:
            self._await_confirmation(operation)
        else:
            operation.receipt = next((s.receipt for s in operation.counting() if s.receipt), "")
            operation.move(state, NextStep.NONE, note=reading.fault)
        self._tell(operation, reading)
        if state is S.REFUSED:
            self._stop_dependents(operation)
        self.derive_job()

    def _prepare_again(self, operation: Operation, reading: Reading) -> None:
        if reading.blocked:
            operation.move(S.PREPARED, NextStep.BLOCKED, note=reading.fault)
        else:
            at = self._memory.now + operation.back_off(reading)
            operation.move(S.PREPARED, NextStep.SEND, at, reading.fault)
        if self._memory.cancel_requested:
            operation.move(S.WITHDRAWN, NextStep.NONE)

    def _await_confirmation(self, operation: Operation) -> None:
        contract, now = operation.contract, self._memory.now
        if contract.lookup is not None:
            at = now + timedelta(seconds=contract.lookup.wait(0))
            operation.move(S.SUBMITTED, NextStep.LOOK_UP, at)
        elif contract.confirmation == "later":
            operation.move(S.SUBMITTED, NextStep.NONE, now + timedelta(seconds=contract.confirmation_within))
        else:
            note = "it was accepted, but this receiver never says what became of it"
            operation.move(S.UNKNOWN, NextStep.NONE, note=note)

    def _tell(self, operation: Operation, reading: Reading) -> None:
        if reading.outcome is Outcome.KEY_MISMATCH:
            self._memory.record("operation.key_mismatch", operation=operation.label, why=reading.fault)
        elif reading.blocked:
            self._memory.record("send.blocked", operation=operation.label, why=reading.fault)

    def _stop_dependents(self, refused: Operation) -> None:
        for other in self._operations():
            waits = other.ordinal > refused.ordinal and other.state is S.PREPARED
            if waits and not other.draft.independent:
                other.plan(NextStep.NONE, note=f"{refused.label} before it was refused")

    # -- look-ups ---------------------------------------------------------------------------------------------
    def look_up(self, operation: Operation) -> None:
        contract, asked_at = operation.contract, self._memory.now
        seen = operation.receiver.look_up(key=operation.key, record=operation.record)
        action = contract.action_of(
            operation.request.method, local_path(operation.receiver.base_url, operation.request.target)
        )
        sight = read_sight(seen, contract, action, sent=operation.request.body, record=operation.record)
        proves = _proves(operation, sight, asked_at)
        self._observed(operation, "lookup", sight.found.value, proves=proves)
        operation.lookups, operation.last_lookup_at = operation.lookups + 1, asked_at
        if sight.found is Found.APPLIED and proves:
            operation.receipt = sight.receipt_id
            operation.move(S.CONFIRMED, NextStep.NONE)
            self.derive_job()
        elif sight.found in (Found.DIFFERS, Found.DUPLICATE) and proves:
            if sight.found is Found.DUPLICATE:
                self._memory.record(
                    "operation.possible_duplicate", operation=operation.label, why=sight.summary
                )
            operation.receipt = sight.receipt_id
            operation.move(S.CONFLICTED, NextStep.NONE)
            self.derive_job()
        elif sight.found is Found.ABSENT and proves:
            self._absent(operation)
        elif sight.found is Found.FAILED and proves and operation.is_one_effect:
            operation.move(S.REFUSED, NextStep.NONE, note=sight.summary)
            self._stop_dependents(operation)
            self.derive_job()
        else:
            self.plan_again(operation)

    def _absent(self, operation: Operation) -> None:
        """Proven not applied: sent again by itself while the approval lives and the contract allows, else it stops."""
        memory, proposal = self._memory, self._memory.proposal
        assert proposal is not None, "an operation belongs to a proposal"
        operation.disproved = len(operation.submissions)
        again = (
            operation.resubmissions < operation.contract.automatic_resubmissions
            and not memory.cancel_requested
            and not is_never_made_again(operation.submissions)
            and proposal.expires_at > memory.now
        )
        step, at = (NextStep.RESUBMIT, memory.now) if again else (NextStep.NONE, None)
        operation.move(S.NOT_APPLIED, step, at, "the receiver holds nothing under this key")
        self.derive_job()

    def plan_again(self, operation: Operation) -> None:
        step = operation.decide(now=self._memory.now, cancelled=self._memory.cancel_requested)
        if operation.state is S.SUBMITTED and step.kind is not NextStep.LOOK_UP:
            operation.move(S.UNKNOWN, NextStep.NONE, note="it was accepted, but never confirmed")
        else:
            operation.plan(step.kind, step.at, step.why)
        self.derive_job()

    # -- the job ----------------------------------------------------------------------------------------------
    def derive_job(self, actor: str = "worker") -> None:
        memory = self._memory
        if memory.state not in (JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION):
            return
        standings = [Standing(o.state, o.next_step) for o in self._operations()]
        derived = derive(standings, cancelled=memory.cancel_requested)
        if derived.state == memory.state or (memory.state, derived.state, actor) not in states.ALLOWED:
            return
        if derived.state in (JobState.FAILED, JobState.CANCELLED):
            self.withdraw()
        fates = [{"operation": o.label, "state": o.state.value, "why": o.note} for o in self._operations()]
        memory.move(derived.state, derived.event, actor=actor, operations=fates)

    def _operations(self) -> list[Operation]:
        return self._memory.proposal.operations if self._memory.proposal is not None else []

    def withdraw(self) -> None:
        for operation in self._operations():
            if operation.state is S.PREPARED:
                operation.move(S.WITHDRAWN, NextStep.NONE)

    def _withdraw_unsent(self, state: JobState) -> None:
        if state is JobState.VALIDATED or state in ENDED:
            self.withdraw()

    def _observed(self, operation: Operation, kind: str, finding: str, *, proves: bool) -> None:
        self._memory.record(
            "operation.observed", operation=operation.label, kind=kind, finding=finding, proves=proves
        )


def _proves(operation: Operation, sight: Sight, asked_at: datetime) -> bool:
    lookup = operation.contract.lookup
    assert lookup is not None, "only a contract with a look-up is asked"
    if sight.found in (Found.APPLIED, Found.DIFFERS, Found.DUPLICATE, Found.FAILED):
        return lookup.by_key or lookup.authoritative
    counts_from = operation.absence_counts_from()
    if sight.found is not Found.ABSENT or counts_from is None:
        return False
    return asked_at >= max(counts_from, operation.confirm_by or counts_from)
