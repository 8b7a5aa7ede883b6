"""From READY_TO_COMMIT to an outcome: sends, look-ups and what follows from each, on the kit's clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from counterfoil.testing.memory import JOB_ID, TENANT_ID, KitFailure, Memory, Proposed
from counterfoil.testing.operations import Operation, Submission
from counterfoil.testing.receivers import answering
from counterfoil.testing.settling import Settling
from dispatch.classification import read_exchange
from dispatch.looking import ask_workflow, moved_sentence, strangely_moved
from dispatch.requests import local_path
from dispatch.states import MAY_STAND, NextStep, OperationState
from workflows.authoring import Ctx
from workflows.states import JobState

S = OperationState
UNDER_WAY = (JobState.READY_TO_COMMIT, JobState.SUBMITTED, JobState.NEEDS_RECONCILIATION)
MOST_SENDS = 50
"""A scripted receiver that is sent to more often than this will never have it."""

RECORD_BUSY = timedelta(seconds=15)


class Sending:
    """Takes the operations of the open proposal as far as they go by themselves."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._settling = Settling(memory)

    def go(self) -> None:
        """Send, look up and send again, letting the time pass where something is due later."""
        while self._memory.state in UNDER_WAY and (proposal := self._memory.proposal) is not None:
            self._overdue(proposal)
            due = [o for o in proposal.operations if self._is_due(o, proposal)]
            if not due:
                if not self._wait_for_confirmation(proposal):
                    return
                continue
            operation = min(due, key=lambda o: (o.next_step_at or self._memory.now, o.ordinal))
            self._memory.wait_until(operation.next_step_at)
            if operation.next_step is NextStep.LOOK_UP:
                self._settling.look_up(operation)
            else:
                self._send(operation, proposal)

    def ask_to_stop(self) -> None:
        """A cancel was asked for: what was not sent is withdrawn, the rest is seen to its end."""
        self._settling.withdraw()
        self._settling.derive_job(actor="admin")

    # -- what is due ------------------------------------------------------------------------------------------
    def _is_due(self, operation: Operation, proposal: Proposed) -> bool:
        if operation.next_step in (NextStep.NONE, NextStep.BLOCKED):
            return False
        if operation.next_step is NextStep.SEND and not operation.draft.independent:
            before = [o for o in proposal.operations if o.ordinal < operation.ordinal]
            return all(o.state is S.CONFIRMED for o in before)
        return True

    def _wait_for_confirmation(self, proposal: Proposed) -> bool:
        """Let the time for a confirmation that only the receiver could give pass. False where nothing waits for one."""
        waiting = [
            o.next_step_at for o in proposal.operations
            if o.state is S.SUBMITTED and o.next_step is NextStep.NONE and o.next_step_at is not None
        ]  # fmt: skip
        if not waiting:
            return False
        self._memory.wait_until(min(waiting))
        return True

    def _overdue(self, proposal: Proposed) -> None:
        for operation in proposal.operations:
            at = operation.next_step_at
            accepted = operation.state is S.SUBMITTED and operation.next_step is NextStep.NONE
            if accepted and at is not None and at <= self._memory.now:
                self._settling.plan_again(operation)

    # -- a send -----------------------------------------------------------------------------------------------
    def _send(self, operation: Operation, proposal: Proposed) -> None:
        if len(operation.submissions) >= MOST_SENDS:
            raise KitFailure(
                f"{operation.label} was sent {MOST_SENDS} times and has no outcome: {operation.note}"
            )
        if self._record_is_busy(operation, proposal):
            operation.plan(operation.next_step, self._memory.now + RECORD_BUSY)
            return
        permit = "window" if operation.state is S.UNKNOWN else "approval"
        if self._turned_down(operation, proposal, permit):
            return
        submission = self._open(operation, proposal, permit)
        seen = operation.receiver.send(operation.request)
        submission.marked = seen.marked
        if seen.status is None and seen.marked:
            self._memory.now += timedelta(seconds=operation.contract.timeouts.read)
        action = operation.contract.action_of(
            operation.request.method, local_path(operation.receiver.base_url, operation.request.target)
        )
        assert action is not None, "a frozen request is one of its contract's actions"
        reading = read_exchange(
            seen, operation.contract, action, sent=operation.request.body, record=operation.record,
            now=self._memory.now,
        )  # fmt: skip
        self._settling.close(operation, submission, reading, seen.status)

    def _open(self, operation: Operation, proposal: Proposed, permit: str) -> Submission:
        memory = self._memory
        again = operation.state is not S.PREPARED
        operation.move(S.SUBMITTED, NextStep.NONE)
        operation.lookups = 0
        window = timedelta(seconds=operation.contract.timeouts.send_window)
        submission = Submission(
            len(operation.submissions) + 1, again, permit, memory.now, memory.now + window
        )
        operation.submissions.append(submission)
        proposal.closing = proposal.closing or "sent"
        event = "operation.resubmitted" if again else "operation.submitted"
        told: dict[str, Any] = {
            "operation": operation.label,
            "submission": submission.number,
            "permit": permit,
        }
        if memory.state == JobState.READY_TO_COMMIT:
            memory.move(JobState.SUBMITTED, event, **told)
        else:
            memory.record(event, **told)
        return submission

    def _turned_down(self, operation: Operation, proposal: Proposed, permit: str) -> bool:
        """Repeat the checks before a send. What fails is told by name and goes back the way it would."""
        memory = self._memory
        failed: list[tuple[str, str]] = []
        if permit == "window":
            if operation.safe_until is None or memory.now >= operation.safe_until:
                failed.append(("Window", "The same key is no longer safe."))
        else:
            if memory.now >= proposal.expires_at:
                failed.append(("Expiry", "It has expired."))
            failed += self._looked_at(proposal)
        for check, why in failed:
            memory.record("send.check_failed", operation=operation.label, check=check, why=why)
        if not failed:
            return False
        check, why = failed[0]
        if check == "Window":
            self._settling.plan_again(operation)
        elif operation.state is not S.PREPARED:
            operation.plan(NextStep.NONE, note=why)
            self._settling.derive_job()
        elif memory.state != JobState.READY_TO_COMMIT:
            for other in proposal.operations:
                if other.state is S.PREPARED and other.ordinal >= operation.ordinal:
                    other.plan(NextStep.NONE, note=why)
            self._settling.derive_job()
        else:
            expired = check == "Expiry"
            proposal.closing = proposal.closing or ("expired" if expired else "voided")
            event = "proposal.expired" if expired else "proposal.voided"
            memory.move(JobState.VALIDATED, event, number=proposal.number, why=why)
        return True

    def _looked_at(self, proposal: Proposed) -> list[tuple[str, str]]:
        """What the workflow's `source_version` and `recheck` handlers say, as checks that failed."""
        memory = self._memory
        ctx = Ctx(
            tenant_id=TENANT_ID,
            job_id=JOB_ID,
            reference=memory.reference,
            item_key="1",
            attempt=1,
            request_key=f"{memory.workflow.name}-{JOB_ID}-recheck-1",
            provider=memory.provider,
        )
        with answering(memory.receivers):
            looked = ask_workflow(memory.workflow, ctx, proposal.draft)
        written = {o.record for o in proposal.operations if o.state.value in MAY_STAND}
        moved = [("Record versions", moved_sentence(s)) for s in strangely_moved(looked, written)]
        return moved + [("Recheck", sentence) for sentence in looked.objections or ()]

    def _record_is_busy(self, operation: Operation, proposal: Proposed) -> bool:
        return any(
            o is not operation and o.state in (S.SUBMITTED, S.UNKNOWN)
            and (o.receiver.name, o.record) == (operation.receiver.name, operation.record)
            for o in proposal.operations
        )  # fmt: skip
