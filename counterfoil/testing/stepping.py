"""From a submission to its proposal: the validation and the steps, one item after the other, on the kit's clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from counterfoil.testing.memory import JOB_ID, TENANT_ID, Attempt, Item, KitFailure, Memory, Stage
from counterfoil.testing.receivers import answering
from counterfoil.testing.waiting import Waits
from workflows.authoring import Ctx, Event, Question, Sleep, Usage
from workflows.authoring.steps import VALIDATE_STAGE, Parameter, Step
from workflows.authoring.waits import Wait
from workflows.claims import Claim
from workflows.engine import keys
from workflows.engine.handling import PROBLEMS, check_wait, problems_of
from workflows.engine.outcomes import Result, TooLate, encode, failed
from workflows.kinds import AttemptOutcome, StageKind
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState, JobState

KEYS_NAMED = 50
MOST_ATTEMPTS = 100_000
"""A run that makes more attempts than this is one that never ends."""


class Stepping:
    """Runs a job's items until it has a proposal, has ended, or cannot go on by itself."""

    def __init__(self, memory: Memory, waits: Waits) -> None:
        self._memory, self._waits = memory, waits
        self.proposes: Any = None
        """Called with the saved draft when the propose stage has closed."""

    def begin(self) -> None:
        """Open the validation."""
        item = self._memory.item(VALIDATE_STAGE, "1", 1)
        self._memory.stages.append(Stage(VALIDATE_STAGE, 0, StageKind.VALIDATE, [item]))

    def go(self) -> None:
        """Run whatever can run, letting the time pass where something is due later."""
        for _ in range(MOST_ATTEMPTS):
            self._end_due_waits()
            stage = self._memory.open_stage
            if stage is None or self._memory.ended or self._is_held():
                return
            if self._is_met(stage):
                self._close(stage)
            elif (item := self._next(stage)) is not None:
                self._attempt(stage, item)
            elif not self._pass_time(stage):
                self._waits.tell_begun()
                return
        raise KitFailure(f"The run made {MOST_ATTEMPTS:,} attempts and has not come to an end.")

    # -- which item, and when ---------------------------------------------------------------------------------
    def _next(self, stage: Stage) -> Item | None:
        return next((i for i in stage.items if i.state is ItemState.READY), None)

    def _pass_time(self, stage: Stage) -> bool:
        """Let the time pass until something is due. False where nothing is."""
        due = [i.due_at for i in stage.items if i.state is ItemState.BACKING_OFF and i.due_at is not None]
        patience = stage.needs.patience
        if stage.met_at is not None and patience is not None:
            due.append(stage.met_at + timedelta(seconds=patience))
        if not due:
            return False
        if self._memory.deadline_at is not None:
            due.append(self._memory.deadline_at)
        self._memory.wait_until(min(due))
        for item in stage.items:
            if (
                item.state is ItemState.BACKING_OFF
                and item.due_at is not None
                and item.due_at <= self._memory.now
            ):
                item.state, item.due_at = ItemState.READY, None
        return True

    def _is_met(self, stage: Stage) -> bool:
        if stage.need is None:
            return not stage.count(*OPEN_ITEM_STATES, *STUCK_ITEM_STATES)
        if stage.count(ItemState.SUCCEEDED) < stage.need:
            return False
        stage.met_at = stage.met_at or self._memory.now
        patience = stage.needs.patience
        waited = patience is not None and self._memory.now >= stage.met_at + timedelta(seconds=patience)
        return waited or not stage.count(*OPEN_ITEM_STATES)

    def _is_held(self) -> bool:
        memory = self._memory
        if memory.deadline_at is not None and memory.now >= memory.deadline_at:
            memory.record(
                "deadline.passed", deadline=memory.deadline_at.isoformat(), why="its deadline passed"
            )
            memory.held, memory.deadline_at = True, None
        return memory.held

    def _end_due_waits(self) -> None:
        self._waits.end_due()
        stage = self._memory.open_stage
        if stage is not None:
            self._report(stage)

    # -- one attempt ------------------------------------------------------------------------------------------
    def _attempt(self, stage: Stage, item: Item) -> None:
        memory = self._memory
        item.state, item.used = ItemState.RUNNING, item.used + 1
        item.first_started_at = item.first_started_at or memory.now
        claim, usage, began = memory.claim(stage, item), Usage(), memory.now
        try:
            came = self._handled(stage, item, claim, usage)
        except KitFailure:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            result = failed(claim, error, retry=stage.retry, usage=usage, started=began, now=memory.now)
            self._did_not_work(stage, item, result, usage)
            return
        outcome = AttemptOutcome.SUCCEEDED if isinstance(came, tuple) else AttemptOutcome.WAITING
        item.attempts.append(Attempt(item.used, outcome, began, memory.now, usage=usage))
        if isinstance(came, tuple):
            item.state, (item.output, item.digest) = ItemState.SUCCEEDED, came
        else:
            self._waits.begin(item, came)

    def _handled(self, stage: Stage, item: Item, claim: Claim, usage: Usage) -> tuple[str, str] | Wait:
        """The saved result and its digest, or what the step waits for."""
        memory, step = self._memory, stage.step
        ctx = Ctx(
            tenant_id=TENANT_ID,
            job_id=JOB_ID,
            reference=memory.reference,
            item_key=item.key,
            attempt=item.used,
            request_key=memory.request_key(item),
            usage=usage,
            provider=memory.provider,
            reader=memory.read_file,
        )
        with answering(memory.receivers):
            if step is None:
                return encode(PROBLEMS, problems_of(memory.workflow, ctx, memory.text))
            if step.retry.elapsed is not None and claim.elapsed_before > step.retry.elapsed:
                raise TooLate(f"{claim.elapsed_before:.0f} s have passed since the first try.")
            arguments = {p.name: p.adapter.validate_json(self.text_of(p, item)) for p in step.parameters}
            value = step.handler(ctx, **arguments)
            if step.waits and isinstance(value, (Sleep, Event, Question)):
                check_wait(step, value)
                return value
            output, digest = encode(step.output, value)
            keys.check(memory.workflow, step, output)
            return output, digest

    def text_of(self, parameter: Parameter, item: Item) -> str:
        """What a handler's parameter is given, as JSON text."""
        if parameter.name in item.correction:
            return json.dumps(item.correction[parameter.name])
        if parameter.source == "input":
            return self._memory.text
        if parameter.source == "element":
            return item.element or "null"
        stage = self._memory.stage(parameter.step)
        assert stage is not None, "a step opens after everything it takes from"
        outputs = [i.output for i in stage.items if i.state is ItemState.SUCCEEDED and i.output is not None]
        return outputs[-1] if parameter.source == "output" else f"[{','.join(outputs)}]"

    def _did_not_work(self, stage: Stage, item: Item, result: Result, usage: Usage) -> None:
        item.attempts.append(
            Attempt(
                item.used, result.outcome, result.started_at, result.ended_at, result.error_class,
                result.error_message, usage,
            )
        )  # fmt: skip
        item.state = result.state
        if result.state is ItemState.BACKING_OFF:
            item.due_at = self._memory.now + timedelta(seconds=result.wait_seconds or 0.0)
        else:
            self._report(stage)

    def _report(self, stage: Stage) -> None:
        """Tell what stopped, unless others of its stage can still be enough."""
        stuck = [i for i in stage.items if i.state in STUCK_ITEM_STATES]
        if stage.need is not None and len(stage.items) - len(stuck) >= stage.need:
            return
        for item in stuck:
            if not item.reported:
                item.reported = True
                event = "retry.exhausted" if item.state is ItemState.EXHAUSTED else "item.refused"
                self._memory.record(event, stage=stage.name, key=item.key, attempts=item.used, why=item.error)

    # -- closing and opening ----------------------------------------------------------------------------------
    def _close(self, stage: Stage) -> None:
        late = [i for i in stage.items if i.state in OPEN_ITEM_STATES]
        skipped = [i for i in stage.items if i.state is ItemState.SKIPPED]
        for item in late:
            item.state = ItemState.SKIPPED
        stage.closed = True
        if stage.kind is StageKind.EACH:
            stuck = [i for i in stage.items if i.state in STUCK_ITEM_STATES]
            without = {"late": late, "failed": stuck, "skipped": skipped}
            named = {
                name: {"count": len(found), "keys": [i.key for i in found][:KEYS_NAMED]}
                for name, found in without.items()
                if found
            }
            self._memory.record(
                "stage.closed", stage=stage.name, items=len(stage.items), checkpoints=_digest(stage), **named
            )
        self._follow(stage)

    def _follow(self, stage: Stage) -> None:
        memory = self._memory
        if stage.kind is StageKind.PROPOSE:
            self.proposes(stage.items[0].output)
            return
        if stage.kind is StageKind.VALIDATE:
            problems = json.loads(stage.items[0].output or "[]")
            if problems:
                memory.move(JobState.FAILED, "input.refused", problems=problems)
                return
            memory.move(JobState.VALIDATED, "input.validated", report=_digest(stage))
        step = memory.workflow.after(stage.ordinal)
        if step is not None:
            self.open(step)

    def open(self, step: Step) -> None:
        """Open a step with all of its items."""
        items = [
            self._memory.item(step.name, key, ordinal, element, step.retry.attempts)
            for ordinal, key, element in self._elements(step)
        ]
        self._memory.stages.append(Stage(step.name, step.ordinal, step.kind, items, step, step.needs))

    def _elements(self, step: Step) -> Iterator[tuple[int, str, str | None]]:
        if step.each is None:
            yield 1, "1", None
            return
        source = self._memory.stage(step.each.step)
        assert source is not None, "a step opens after what it maps over"
        done = [i for i in source.items if i.state is ItemState.SUCCEEDED]
        if not step.each.field:
            yield from ((i.ordinal, i.key, i.output) for i in done)
            return
        for ordinal, element in enumerate(json.loads(done[0].output or "{}")[step.each.field], start=1):
            text = json.dumps(element, ensure_ascii=False, separators=(",", ":"))
            yield ordinal, str(element[step.key]) if step.key else str(ordinal), text


def _digest(stage: Stage) -> str:
    """SHA-256 over the digests of a stage's outputs, in input order, as the journal has it."""
    lines = [f"{i.key} 1 {i.digest}" for i in stage.items if i.output is not None]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
