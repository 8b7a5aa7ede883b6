"""Running one claim: find its handler, give it its input, and turn what it does into a Result. No transaction is open.

A slot's Django connection runs as the app's role in the scope of the item's tenant, and only to fetch inputs; they
are immutable, so what was fetched or just saved is kept in a small cache of the process.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import close_old_connections
from pydantic import ValidationError

from access.outages import is_outage
from access.sessions import trust_quiet_session
from access.tenancy import reading
from workflows import inputs, machines, registry
from workflows.authoring import Ctx, Usage, Workflow
from workflows.authoring.steps import Parameter, Step
from workflows.engine import handlers, keys, waiting
from workflows.engine.handling import MACHINE_RETRY, PROBLEMS, problems_of, request_key
from workflows.engine.outcomes import (
    LONGEST_MESSAGE,
    MadeByAnOlderVersion,
    Result,
    TooLate,
    encode,
    failed,
    storable,
)
from workflows.machines import Claim, Done, Wait
from workflows.models import AttemptOutcome, Checkpoint, Stage, StageKind
from workflows.states import ItemState

log = logging.getLogger(__name__)
LEFT_SECONDS = 0.5
"""What a process without the revision gives back it must not claim again before the job is set apart."""


class Pinned:
    """A claim with what the claim's query knows of its job, so that nothing has to be fetched for it."""

    __slots__ = ("_begun", "claim", "digest", "element", "reference", "revision", "started_at", "workflow")

    def __init__(
        self,
        *,
        claim: Claim,
        workflow: str,
        revision: str,
        digest: str,
        reference: str,
        element: str | None,
        started_at: datetime,
    ) -> None:
        self.claim = claim
        self.workflow = workflow
        self.revision = revision
        self.digest = digest
        self.reference = reference
        self.element = element
        self.started_at = started_at
        self._begun = time.monotonic()

    def now(self) -> datetime:
        """The time by the database's clock, which dated the claim: the host's may jump."""
        return self.started_at + timedelta(seconds=time.monotonic() - self._begun)

    def definition(self) -> Workflow:
        """The workflow that the job pins. Raises RevisionMissing where this process has not loaded it."""
        return registry.pinned(self.workflow, self.revision, self.digest)


class Texts:
    """Inputs and outputs by (job, stage), most recently used, up to a number of characters."""

    def __init__(self, limit: int = 32_000_000) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        self._size = 0
        self._kept: OrderedDict[tuple[int, str], str] = OrderedDict()

    def get(self, key: tuple[int, str]) -> str | None:
        """The text, now the most recently used one; None where it is not kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: tuple[int, str], text: str) -> None:
        """Keep a text; those that were not used for longest go."""
        with self._lock:
            self._size += len(text) - len(self._kept.pop(key, ""))
            self._kept[key] = text
            while self._size > self._limit:
                self._size -= len(self._kept.popitem(last=False)[1])


def run(pinned: Pinned, texts: Texts) -> Result:
    """Run a claim's handler to its Result. Never raises, not even for SystemExit: a slot outlives its handlers."""
    claim = pinned.claim
    usage = claim.usage
    retry = MACHINE_RETRY
    try:
        trust_quiet_session()
        if claim.kind == StageKind.MACHINE:
            return _machine(pinned)
        definition = pinned.definition()
        if claim.kind == StageKind.VALIDATE:
            return _succeeded(pinned, usage, *_validate(definition, pinned, texts, usage))
        step = definition.step_named(claim.stage_name)
        if step is None:
            raise registry.RevisionMissing(f"{pinned.workflow} has no step {claim.stage_name}.")
        retry = step.retry
        waited = handlers.patiently(lambda: waiting.again(pinned, step)) if step.waits else None
        if waited is not None:
            return waited
        if retry.elapsed is not None and claim.elapsed_before > retry.elapsed:
            raise TooLate(
                f"{claim.elapsed_before:.0f} s have passed since the first try; {retry.elapsed:g} s are given."
            )
        arguments = handlers.patiently(lambda: _arguments(step, pinned, texts))
        value = handlers.call(step.handler, _ctx(pinned, usage), **arguments)
        if step.waits and waiting.asks(value):
            return handlers.patiently(lambda: waiting.begun(pinned, step, value, usage))
        output, digest = encode(step.output, value)
        keys.check(definition, step, output)
        return _succeeded(pinned, usage, output, digest)
    except registry.RevisionMissing as missing:
        return released(pinned, error_class="RevisionMissing", message=str(missing), seconds=LEFT_SECONDS)
    except handlers.NoDatabase as away:
        return released(pinned, error_class="NoDatabase", message=str(away))
    except BaseException as error:
        log.info("item %s, attempt %s: %r", claim.item_id, claim.attempt, error)
        return failed(claim, error, retry=retry, usage=usage, started=pinned.started_at, now=pinned.now())
    finally:
        close_old_connections()


def released(
    pinned: Pinned, *, error_class: str = "", message: str = "", seconds: float | None = None
) -> Result:
    """The item given back as it was: not an attempt. With `seconds` nobody claims it before they are over."""
    return Result(
        claim=pinned.claim,
        outcome=AttemptOutcome.RELEASED,
        state=ItemState.READY if seconds is None else ItemState.BACKING_OFF,
        started_at=pinned.started_at,
        ended_at=pinned.now(),
        error_class=error_class,
        error_message=message,
        wait_seconds=seconds,
    )


def _machine(pinned: Pinned) -> Result:
    try:
        answer = machines.handler(pinned.claim.stage_name)(pinned.claim)
    except Exception as error:
        if not is_outage(error) or handlers.database_answers():
            raise
        away = released(pinned, error_class="NoDatabase", message=storable(str(error))[:LONGEST_MESSAGE])
        return replace(away, state=ItemState.BACKING_OFF, wait_seconds=handlers.moment())
    wait = answer.at if isinstance(answer, Wait) else None
    state = ItemState.SUCCEEDED
    if isinstance(answer, Wait):
        state = ItemState.WAITING if wait is None else ItemState.BACKING_OFF
    return Result(
        claim=pinned.claim,
        outcome=AttemptOutcome.SUCCEEDED if isinstance(answer, Done) else AttemptOutcome.WAITING,
        state=state,
        started_at=pinned.started_at,
        ended_at=pinned.now(),
        wait_until=wait,
        reset_attempts=True,
        usage=pinned.claim.usage,
    )


def _succeeded(pinned: Pinned, usage: Usage, output: str, digest: str) -> Result:
    return Result(
        claim=pinned.claim,
        outcome=AttemptOutcome.SUCCEEDED,
        state=ItemState.SUCCEEDED,
        started_at=pinned.started_at,
        ended_at=pinned.now(),
        output=output,
        digest=digest,
        usage=usage,
    )


def _ctx(pinned: Pinned, usage: Usage) -> Ctx:
    claim = pinned.claim
    return Ctx(
        tenant_id=claim.tenant_id,
        job_id=claim.job_id,
        reference=pinned.reference,
        item_key=claim.key,
        attempt=claim.attempt,
        request_key=request_key(pinned.workflow, claim.job_id, claim.item_id),
        usage=usage,
    )


def _validate(definition: Workflow, pinned: Pinned, texts: Texts, usage: Usage) -> tuple[str, str]:
    """The workflow's own validation as a checkpoint: the list of problems, empty when there are none."""
    text = handlers.patiently(lambda: _input_text(pinned.claim, texts))
    return encode(PROBLEMS, handlers.call(problems_of, definition, _ctx(pinned, usage), text))


def _arguments(step: Step, pinned: Pinned, texts: Texts) -> dict[str, Any]:
    """What the handler is given. Of a single step a person may have corrected some of it (see `corrections.py`)."""
    corrected: dict[str, Any] = {}
    if step.each is None and pinned.element is not None:
        corrected = json.loads(pinned.element)
    return {
        p.name: p.adapter.validate_json(json.dumps(corrected[p.name]))
        if p.name in corrected
        else _argument(p, pinned, texts)
        for p in step.parameters
    }


def _argument(parameter: Parameter, pinned: Pinned, texts: Texts) -> Any:
    claim = pinned.claim
    readers: dict[str, Callable[[], str]] = {
        "input": lambda: _input_text(claim, texts),
        "element": lambda: pinned.element or "null",
        "output": lambda: _output_text(claim, parameter.step, texts),
        "outputs": lambda: _outputs_text(claim, parameter.step),
    }
    text = readers[parameter.source]()
    try:
        return parameter.adapter.validate_json(text)
    except ValidationError as error:
        raise MadeByAnOlderVersion.of(parameter, error) from error


def kept_as(claim: Claim, stage: str) -> tuple[int, str]:
    """Under what a process keeps a text of the claim's job: a migration gives the job other texts with its revision, and
    steps that are run again give others under the same."""
    return claim.job_id, f"{claim.revision}/{claim.reruns}/{stage}"


def _input_text(claim: Claim, texts: Texts) -> str:
    key = kept_as(claim, "")
    text = texts.get(key)
    if text is None:
        with reading(claim.tenant_id):
            text = inputs.text_of(claim.job_id)
        texts.put(key, text)
    return text


def _output_text(claim: Claim, stage: str, texts: Texts) -> str:
    """The saved output of a job's single step, as JSON."""
    key = kept_as(claim, stage)
    text = texts.get(key)
    if text is None:
        with reading(claim.tenant_id):
            rows = Checkpoint.objects.filter(item__job_id=claim.job_id, item__stage__name=stage)
            text = str(rows.order_by("-version").values_list("output", flat=True)[0])
        texts.put(key, text)
    return text


def _outputs_text(claim: Claim, stage: str) -> str:
    with reading(claim.tenant_id):
        opened = Stage.objects.get(job_id=claim.job_id, name=stage)
        rows = Checkpoint.objects.filter(
            item__stage=opened, item__job_id=claim.job_id, item__state=ItemState.SUCCEEDED.number
        )
        latest: dict[int, str] = {}
        for ordinal, output in rows.order_by("item__ordinal", "version").values_list(
            "item__ordinal", "output"
        ):
            latest[ordinal] = output
    return "[" + ",".join(latest.values()) + "]"


def decode_problems(text: str) -> list[dict[str, str]]:
    """What a validation's checkpoint says is wrong."""
    problems: list[dict[str, str]] = json.loads(text)
    return problems
