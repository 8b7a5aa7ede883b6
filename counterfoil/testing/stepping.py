"""From a submission to its proposal: the validation and the steps, one item after the other, on the kit's clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from counterfoil.testing.memory import JOB_ID, TENANT_ID, Attempt, Item, KitFailure, Memory, Stage
from counterfoil.testing.receivers import answering
from workflows.authoring import Ctx, Usage
from workflows.authoring.steps import VALIDATE_STAGE, Parameter, Step
from workflows.claims import Claim
from workflows.engine import keys
from workflows.engine.handling import PROBLEMS, problems_of, request_key
from workflows.engine.outcomes import Result, TooLate, encode, failed
from workflows.kinds import AttemptOutcome, StageKind
from workflows.states import OPEN_ITEM_STATES, STUCK_ITEM_STATES, ItemState, JobState

KEYS_NAMED = 50
MOST_ATTEMPTS = 100_000
"""A run that makes more attempts than this is one that never ends."""


class Stepping:
    """Runs a job's items until it has a proposal, has ended, or cannot go on by itself."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.proposes: Any = None
        """Called with the saved draft when the propose stage has closed."""

    def begin(self) -> None:
        """Open the validation."""
        item = Item(step=VALIDATE_STAGE, key="1", ordinal=1)
        self._memory.stages.append(Stage(VALIDATE_STAGE, 0, StageKind.VALIDATE, [item]))

    def go(self) -> None:
        """Run whatever can run, letting the time pass where something is due later."""
        for _ in range(MOST_ATTEMPTS):
            stage = self._memory.open_stage
            if stage is None or self._memory.ended:
                return
            if self._is_met(stage):
                self._close(stage)
            elif (item := self._next(stage)) is not None:
                self._attempt(stage, item)
            elif not self._pass_time(stage):
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

    # -- one attempt ------------------------------------------------------------------------------------------
    def _attempt(self, stage: Stage, item: Item) -> None:
        memory = self._memory
        item.state, item.used = ItemState.RUNNING, item.used + 1
        item.first_started_at = item.first_started_at or memory.now
        claim, usage, began = self._claim(stage, item), Usage(), memory.now
        try:
            output, digest = self._handled(stage, item, claim, usage)
        except KitFailure:
            raise
        except (Exception, SystemExit, GeneratorExit) as error:
            result = failed(claim, error, retry=stage.retry, usage=usage, started=began, now=memory.now)
            self._did_not_work(stage, item, result, usage)
            return
        item.state, item.output, item.digest = ItemState.SUCCEEDED, output, digest
        item.attempts.append(Attempt(item.used, AttemptOutcome.SUCCEEDED, began, memory.now, usage=usage))

    def _number(self, stage: Stage, item: Item) -> int:
        """A number of its own for every item of the run, as an installation's rows have."""
        stages = self._memory.stages
        return sum(len(s.items) for s in stages[: stages.index(stage)]) + item.ordinal

    def _handled(self, stage: Stage, item: Item, claim: Claim, usage: Usage) -> tuple[str, str]:
        memory, step = self._memory, stage.step
        ctx = Ctx(
            tenant_id=TENANT_ID,
            job_id=JOB_ID,
            reference=memory.reference,
            item_key=item.key,
            attempt=item.used,
            request_key=request_key(memory.workflow.name, JOB_ID, self._number(stage, item)),
            usage=usage,
            provider=memory.provider,
        )
        with answering(memory.receivers):
            if step is None:
                return encode(PROBLEMS, problems_of(memory.workflow, ctx, memory.text))
            if step.retry.elapsed is not None and claim.elapsed_before > step.retry.elapsed:
                raise TooLate(f"{claim.elapsed_before:.0f} s have passed since the first try.")
            arguments = {p.name: p.adapter.validate_json(self._text_of(p, item)) for p in step.parameters}
            output, digest = encode(step.output, step.handler(ctx, **arguments))
            keys.check(memory.workflow, step, output)
            return output, digest

    def _claim(self, stage: Stage, item: Item) -> Claim:
        began = item.first_started_at or self._memory.now
        return Claim(
            item_id=0,
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
            elapsed_before=(self._memory.now - began).total_seconds(),
        )

    def _text_of(self, parameter: Parameter, item: Item) -> str:
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
            memory.stages.append(self._opened(step))

    def _opened(self, step: Step) -> Stage:
        items = [
            Item(step.name, key, ordinal, element, step.retry.attempts)
            for ordinal, key, element in self._elements(step)
        ]
        return Stage(step.name, step.ordinal, step.kind, items, step, step.needs)

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
