"""One job in memory: what an installation would keep in rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from workflows import states
from workflows.authoring import Needs, ProposalDraft, Retry, Usage, Workflow
from workflows.authoring.asking import Provider
from workflows.authoring.files import File
from workflows.authoring.steps import Step
from workflows.authoring.waits import Wait
from workflows.claims import Claim
from workflows.engine.handling import request_key
from workflows.kinds import NOT_STEPS, AttemptOutcome, StageKind
from workflows.runs import MARK
from workflows.states import ENDED, NOT_YET, OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState, JobState

if TYPE_CHECKING:
    from counterfoil.testing.operations import Operation
    from counterfoil.testing.receivers import Receiver

TENANT_ID = JOB_ID = 1
BEGINNING = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)


class KitFailure(AssertionError):
    """The test asks for something that has not happened or cannot happen; the message says what is the case."""


class Unscripted(KitFailure):
    """The workflow asked something that the test has no answer for."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The approval policy that the run is decided under. Who may decide is an installation's matter, not the kit's."""

    quorum: int = 1
    waives_approval: bool = False
    expires_after: timedelta = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Entry:
    """One row of the job's journal: `state` is the state it moved the job to, or None."""

    event: str
    state: JobState | None
    evidence: dict[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of an item. `error` is the class of what was raised, `message` what it said; both empty where it went
    well."""

    number: int
    outcome: AttemptOutcome
    began_at: datetime
    ended_at: datetime
    error: str = ""
    message: str = ""
    usage: Usage = field(default_factory=Usage)


@dataclass
class Item:
    """One work item, with its attempts. `number` is its own in the run; `output` is the stored JSON text."""

    number: int
    step: str
    key: str
    ordinal: int
    element: str | None = None
    attempts_limit: int = 5
    state: ItemState = ItemState.READY
    attempts: list[Attempt] = field(default_factory=list)
    output: str | None = None
    digest: str = ""
    due_at: datetime | None = None
    used: int = 0
    first_started_at: datetime | None = None
    reported: bool = False
    wait: Wait | None = None
    told: bool = False
    """Whether the journal has its wait."""
    correction: dict[str, Any] = field(default_factory=dict)
    """Arguments that a person put in place of what they would be."""

    def attempted(self, now: datetime, outcome: AttemptOutcome, error: str = "", message: str = "") -> None:
        """One more attempt, in which no handler was called."""
        self.used += 1
        self.attempts.append(Attempt(self.used, outcome, now, now, error, message))

    @property
    def error(self) -> str:
        """What the last attempt said went wrong, or nothing."""
        return self.attempts[-1].message if self.attempts else ""


@dataclass
class Stage:
    """One opened step. `step` is None for the validation."""

    name: str
    ordinal: int
    kind: StageKind
    items: list[Item]
    step: Step | None = None
    needs: Needs = field(default_factory=Needs)
    met_at: datetime | None = None
    closed: bool = False
    cut_short: bool = False
    """Whether the job ended before it was done."""

    @property
    def retry(self) -> Retry:
        return self.step.retry if self.step is not None else Retry()

    @property
    def need(self) -> int | None:
        return self.needs.of(len(self.items)) if self.kind is StageKind.EACH else None

    def count(self, *wanted: ItemState) -> int:
        return sum(item.state in wanted for item in self.items)


@dataclass
class Proposed:
    """One frozen proposal. `closing` says how it stopped being open: rejected, expired, sent …"""

    number: int
    draft: ProposalDraft
    operations: list[Operation]
    expires_at: datetime
    approvals: list[str] = field(default_factory=list)
    approved_at: datetime | None = None
    closing: str = ""


@dataclass
class Memory:
    """The job and everything around it."""

    workflow: Workflow
    text: str
    reference: str
    policy: Policy
    provider: Provider
    receivers: dict[str, Receiver]
    files: dict[str, File]
    now: datetime = BEGINNING
    state: str = NOT_YET
    journal: list[Entry] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    proposals: list[Proposed] = field(default_factory=list)
    cancel_requested: bool = False
    deadline_at: datetime | None = None
    held: bool = False
    items: int = 0
    runs: int = 0
    """How often steps were run again."""
    on_state: list[Callable[[JobState], None]] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def open_stage(self) -> Stage | None:
        return next((s for s in self.stages if not s.closed), None)

    @property
    def proposal(self) -> Proposed | None:
        return self.proposals[-1] if self.proposals else None

    def record(self, event: str, **evidence: Any) -> None:
        """Note what happened."""
        self.journal.append(Entry(event, None, evidence, self.now))

    def move(self, to: JobState, event: str, *, actor: str = "worker", **evidence: Any) -> None:
        """Change the job's state, by the table of states, and tell whoever listens."""
        if (self.state, to, actor) not in states.ALLOWED:
            raise KitFailure(f"No {actor} moves a job from {self.state} to {to}.")
        self.state = to
        self.journal.append(Entry(event, to, evidence, self.now))
        if self.ended:
            self._cut_short()
        for tell in self.on_state:
            tell(to)

    def _cut_short(self) -> None:
        for stage in (s for s in self.stages if not s.closed):
            stage.closed = stage.cut_short = True
            self._cancel(stage)

    def _cancel(self, stage: Stage) -> None:
        for item in stage.items:
            if item.state in (*OPEN_ITEM_STATES, *STUCK_ITEM_STATES):
                item.state, item.wait = ItemState.CANCELLED, None

    def set_aside(self, since: Step) -> dict[str, str]:
        """Set aside what a step and all behind it did; the new names with the old."""
        self.runs += 1
        names = {}
        for stage in (s for s in self.stages if s.kind not in NOT_STEPS and s.ordinal >= since.ordinal):
            names[f"{stage.name}{MARK}{self.runs}"] = stage.name
            stage.name, stage.kind, stage.closed = f"{stage.name}{MARK}{self.runs}", StageKind.SET_ASIDE, True
            self._cancel(stage)
        return names

    def wait_until(self, at: datetime | None) -> None:
        """Let the time pass; it never goes back."""
        if at is not None:
            self.now = max(self.now, at)

    def stage(self, name: str) -> Stage | None:
        return next((s for s in self.stages if s.name == name), None)

    def item(
        self, step: str, key: str, ordinal: int, element: str | None = None, attempts_limit: int = 5
    ) -> Item:
        """A new item, with a number of its own as an installation's rows have."""
        self.items += 1
        return Item(self.items, step, key, ordinal, element, attempts_limit)

    def request_key(self, item: Item) -> str:
        """The key of an item's calls, the same over its attempts."""
        return request_key(self.workflow.name, JOB_ID, item.number)

    def read_file(self, digest: str) -> File:
        """A file that the input names."""
        if digest not in self.files:
            raise Unscripted(f"A step reads the file {digest}, which the test does not give.")
        return self.files[digest]

    def claim(self, stage: Stage, item: Item) -> Claim:
        """The item as a worker would hold it."""
        began = item.first_started_at or self.now
        return Claim(
            item_id=item.number,
            tenant_id=TENANT_ID,
            job_id=JOB_ID,
            stage_id=stage.ordinal,
            stage_name=stage.name,
            kind=stage.kind,
            key=item.key,
            ordinal=item.ordinal,
            ordinal_of_stage=stage.ordinal,
            claim_no=len(item.attempts) + 1,
            attempt=item.used,
            attempts_limit=item.attempts_limit,
            worker_id=1,
            worker_name="kit",
            lane_id=1,
            elapsed_before=(self.now - began).total_seconds(),
        )

    def attempts(self) -> list[Attempt]:
        """Every attempt of every step, in the order in which they ended."""
        every = [a for s in self.stages for i in s.items for a in i.attempts]
        return sorted(every, key=lambda a: a.ended_at)
