"""Steps that wait: what for, and what ends it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from counterfoil.testing.memory import Item, KitFailure, Memory, Stage
from workflows import submissions
from workflows.authoring import Event, Question, Sleep, Woken
from workflows.authoring.steps import Step
from workflows.authoring.waits import Wait
from workflows.engine.handling import WaitExpired, wait_expired
from workflows.engine.outcomes import encode
from workflows.kinds import AttemptOutcome
from workflows.states import ItemState
from workflows.submissions import InvalidSubmission


@dataclass(frozen=True, slots=True)
class Waiting:
    """One item that waits: what its step asked for, and until when (None: for ever)."""

    step: str
    key: str
    wait: Wait
    due_at: datetime | None


class Waits:
    """Begins and ends waits."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def begin(self, item: Item, wait: Wait) -> None:
        """An item waits from now on."""
        when = wait.until if isinstance(wait, Sleep) else wait.within
        item.state, item.wait = ItemState.WAITING, wait
        item.due_at = (
            when if isinstance(when, datetime) else None if when is None else self._memory.now + when
        )
        item.used -= 1  # nothing was tried that could be used up

    def tell_begun(self) -> None:
        """Journal what has begun to wait since, one entry a step and kind."""
        begun: dict[tuple[str, str], list[Item]] = {}
        for item in self._waiting():
            if not item.told:
                item.told = True
                begun.setdefault((item.step, _kind(item.wait)), []).append(item)
        for (step, kind), items in begun.items():
            self._memory.record("wait.began", stage=step, kind=kind, waits=len(items))

    def waiting(self) -> list[Waiting]:
        """Everything that is waited for now."""
        return [Waiting(i.step, i.key, i.wait, i.due_at) for i in self._waiting() if i.wait is not None]

    def come(self, key: str, value: object) -> None:
        """An event from outside. One that nobody waits for fails the test; a misfit is noted and the wait goes on."""
        found = [i for i in self._waiting() if isinstance(i.wait, Event) and i.wait.key == key]
        if not found:
            keys = ", ".join(i.wait.key for i in self._waiting() if isinstance(i.wait, Event)) or "no event"
            raise KitFailure(f"Nobody waits for the event {key!r}; waited for: {keys}.")
        try:
            self._end(found[0], value, "event.received")
        except InvalidSubmission as misfit:
            fields = [p.field for p in misfit.problems]
            self._memory.record("event.misfit", step=found[0].step, fields=fields, why=str(misfit))

    def answer(self, value: object, *, step: str, key: str) -> None:
        """A person's answer to the one question of that step and key. Raises InvalidSubmission for a misfit."""
        found = [i for i in self._waiting() if isinstance(i.wait, Question)]
        found = [i for i in found if step in ("", i.step) and key in ("", i.key)]
        if len(found) != 1:
            several = ", ".join(f"{i.step} {i.key}" for i in found) or "none"
            raise KitFailure(f"Say which question is answered, by step and key; such questions: {several}.")
        self._end(found[0], value, "question.answered")

    def wake(self) -> None:
        """Let the time pass until the next wait is over."""
        due = [i.due_at for i in self._waiting() if i.due_at is not None]
        if not due:
            raise KitFailure("Nothing waits for a time.")
        self._memory.wait_until(min(due))

    def end_due(self) -> None:
        """What the passing of time does: who slept wakes up, and what did not come in its time stops."""
        for item in self._waiting():
            if item.due_at is not None and item.due_at <= self._memory.now:
                self._over(item, item.due_at)

    def _over(self, item: Item, due_at: datetime) -> None:
        wait, item.wait, item.due_at = item.wait, None, None
        if isinstance(wait, Sleep):
            item.output, item.digest = encode(self._step(item).output, Woken(at=due_at))
            item.state = ItemState.SUCCEEDED
            item.attempted(self._memory.now, AttemptOutcome.SUCCEEDED)
            return
        assert wait is not None, "an item that waits waits for something"
        item.state = ItemState.REFUSED
        what = wait.key if isinstance(wait, Event) else wait.text
        name = f"{WaitExpired.__module__}.{WaitExpired.__qualname__}"
        message = wait_expired(is_event=isinstance(wait, Event), what=what, due_at=due_at)
        item.attempted(self._memory.now, AttemptOutcome.PERMANENT, name, message)

    def _end(self, item: Item, value: object, event: str) -> None:
        step = self._step(item)
        plain = value.model_dump(mode="json") if isinstance(value, BaseModel) else value
        problems = submissions.problems_of(plain) or submissions.misfits(step.result_type, plain)
        if problems:
            raise InvalidSubmission(problems)
        item.output, item.digest = encode(
            step.output, step.result_type.model_validate_json(json.dumps(plain))
        )
        item.state, item.wait, item.due_at = ItemState.SUCCEEDED, None, None
        self._memory.record(event, stage=item.step, key=item.key, value=item.digest)

    def _step(self, item: Item) -> Step:
        step = self._memory.workflow.step_named(item.step)
        assert step is not None, "a validation never waits"
        return step

    def _waiting(self) -> Iterable[Item]:
        stages: list[Stage] = [s for s in self._memory.stages if not s.closed]
        return [i for s in stages for i in s.items if i.state is ItemState.WAITING]


def _kind(wait: Any) -> str:
    return "time" if isinstance(wait, Sleep) else "event" if isinstance(wait, Event) else "answer"
