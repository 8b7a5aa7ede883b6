"""Operations and their submissions in memory, and what may be done by itself about an unknown one."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from approvals.rendering import FrozenRequest
from counterfoil.testing.receivers import Receiver, sent_values
from dispatch import recovery
from dispatch.classification import DEFINITELY_NOTHING, Outcome, Reading
from dispatch.contracts import Contract
from dispatch.states import MOVES, NextStep, OperationState
from workflows.authoring import OperationDraft

S = OperationState


@dataclass
class Submission:
    """One send. `marked`: bytes may have left."""

    number: int
    resubmission: bool
    permit: str
    opened_at: datetime
    send_deadline_at: datetime
    marked: bool = False
    outcome: Outcome | None = None
    fault: str = ""
    status: int | None = None
    receipt: str = ""
    closed_at: datetime | None = None

    @property
    def quiet_at(self) -> datetime:
        """From when no byte of it leaves any more."""
        return max(self.send_deadline_at, self.closed_at or self.send_deadline_at)


@dataclass
class Operation:
    """One intended effect: what was frozen of it, how it stands, and every send.

    `receipt` is the receiver's own name for what it did; `note` says why it stands as it does.
    """

    ordinal: int
    draft: OperationDraft
    request: FrozenRequest
    receiver: Receiver
    state: OperationState = S.PREPARED
    next_step: NextStep = NextStep.SEND
    next_step_at: datetime | None = None
    submissions: list[Submission] = field(default_factory=list)
    receipt: str = ""
    note: str = ""
    lookups: int = 0
    last_lookup_at: datetime | None = None
    disproved: int = 0
    """How many of the sends a proof of absence has settled."""
    resubmissions: int = 0
    first_marked_at: datetime | None = None
    safe_until: datetime | None = None

    @property
    def contract(self) -> Contract:
        """What its receiver promises."""
        return self.receiver.contract

    @property
    def key(self) -> str:
        """The operation key, the same for every send."""
        return self.request.operation_key

    @property
    def record(self) -> str:
        """The record over there that it is about."""
        return self.request.record

    @property
    def body(self) -> dict[str, Any]:
        """What is sent, read from the frozen bytes."""
        return sent_values(self.request)

    @property
    def label(self) -> str:
        """How messages name it: "operation 2"."""
        return f"operation {self.ordinal}"

    def move(self, to: OperationState, step: NextStep, at: datetime | None = None, note: str = "") -> None:
        """Change the state as the database would allow it."""
        if self.state is not to and (self.state, to) not in MOVES:
            raise AssertionError(f"an operation does not go from {self.state} to {to}")
        self.state, self.note = to, note or self.note
        self.plan(step, at)

    def plan(self, step: NextStep, at: datetime | None = None, note: str = "") -> None:
        """Say what comes next without moving the state."""
        self.next_step, self.next_step_at, self.note = step, at, note or self.note

    def counting(self) -> list[Submission]:
        """The closed submissions that still say something: those after the last proof of absence."""
        return [s for s in self.submissions[self.disproved :] if s.outcome is not None]

    def note_marks(self) -> None:
        """Keep what follows from the sends: the first mark, the window, how much of it is used."""
        marked = [s for s in self.submissions if s.marked]
        if not marked:
            return
        unused = (*DEFINITELY_NOTHING, Outcome.IN_PROGRESS)
        self.first_marked_at = marked[0].opened_at
        self.safe_until = self.contract.resubmit_safe_until(self.first_marked_at)
        self.resubmissions = sum(s.resubmission and s.outcome not in unused for s in marked)

    @property
    def is_one_effect(self) -> bool:
        """Whether all sends were one request to the receiver: what it says of one it says of all."""
        return self.contract.has_window or sum(s.marked for s in self.submissions) <= 1

    @property
    def confirm_by(self) -> datetime | None:
        """Until when what the receiver has accepted may still be confirmed."""
        accepted = [s.closed_at for s in self.counting() if s.outcome is Outcome.PENDING and s.closed_at]
        if not accepted or self.contract.confirmation != "later":
            return None
        return accepted[-1] + timedelta(seconds=self.contract.confirmation_within)

    def decide(self, *, now: datetime, cancelled: bool, reading: Reading | None = None) -> recovery.Step:
        """The next automatic step while the outcome is unknown."""
        submissions = self.counting()
        last = submissions[-1] if submissions else None
        facts = recovery.Facts(
            now=now,
            since=(last.closed_at if last else None) or now,
            quiet_at=max((s.quiet_at for s in submissions), default=now),
            lookups=self.lookups,
            last_lookup_at=self.last_lookup_at,
            resubmissions=self.resubmissions,
            in_progress=recovery.in_a_row([s.outcome for s in submissions], Outcome.IN_PROGRESS),
            futile=recovery.in_a_row([s.outcome for s in submissions], *DEFINITELY_NOTHING),
            safe_until=self.safe_until,
            confirm_by=self.confirm_by,
            slow=last is not None and ("in time" in last.fault or last.status == 504),
            no_more_sends=cancelled or _no_more_sends(submissions),
            stored_error=last is not None and last.status == 500,
            retry_after=reading.retry_after if reading else None,
        )
        return recovery.decide(facts, self.contract)

    def absence_counts_from(self) -> datetime | None:
        """From when finding nothing proves that nothing was applied; None: never."""
        if not self.submissions:
            return None
        return self.contract.absence_counts_from(max(s.quiet_at for s in self.submissions))

    def back_off(self, reading: Reading) -> timedelta:
        """How long to wait after sends that definitely did nothing."""
        if reading.retry_after is not None:
            return timedelta(seconds=max(reading.retry_after, 0.0))
        failures = sum(s.outcome in DEFINITELY_NOTHING for s in self.counting())
        return recovery.backoff(failures, share=0.5)


def is_never_made_again(submissions: list[Submission]) -> bool:
    """Other content under its key, or a redirect: no machine makes the request again, whatever is proven."""
    mismatch = any(s.outcome is Outcome.KEY_MISMATCH for s in submissions)
    return mismatch or (bool(submissions) and 300 <= (submissions[-1].status or 0) < 400)


def _no_more_sends(submissions: list[Submission]) -> bool:
    if is_never_made_again(submissions):
        return True
    last = submissions[-1] if submissions else None
    if last is None:
        return False
    # A 500 again under the same key is the stored answer: sending on would repeat it for ever.
    stored = last.resubmission and last.status == 500
    return last.outcome is Outcome.PENDING or stored
