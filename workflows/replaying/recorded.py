"""One attempt as it was recorded: what it was given then, in which revision, and how it ended. In the job's snapshot."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from workflows import registry
from workflows.authoring.steps import Parameter, Step
from workflows.engine.handling import request_key
from workflows.models import Attempt, Checkpoint, ItemInput, Job, StageKind, WorkItem
from workflows.replaying.rows import Line, Rows, named_at

_PINS = {"job.received", "job.migrated"}


class NotToBeRun(Exception):
    """There is no such attempt, or it is none that can be run again; the message says why."""


@dataclass(frozen=True, slots=True)
class Given:
    """One thing that the handler was given: `text` is JSON, `version` where it has any."""

    name: str
    source: str
    text: str
    version: int = 0


@dataclass(frozen=True, slots=True)
class Recorded:
    """An attempt with everything that running it again takes."""

    attempt: Attempt
    item: WorkItem
    stage: str
    """What its step was called then."""

    workflow: str
    revision: str
    configuration: str
    given: tuple[Given, ...]
    digest: str
    """Of the result that it saved; nothing if it saved none."""

    def order(self, job: Job) -> dict[str, Any]:
        """What the child process is told; `scratch` and `provider` are added."""
        return {
            "workflow": self.workflow,
            "revision": self.revision,
            "configuration": self.configuration,
            "kind": self.item.stage.kind,
            "stage": self.stage,
            "texts": {given.name: given.text for given in self.given},
            "ctx": {
                "tenant_id": job.tenant_id,
                "job_id": job.pk,
                "reference": job.reference,
                "item_key": self.item.key,
                "attempt": self.attempt.number,
                "request_key": request_key(self.workflow, job.pk, self.item.pk),
            },
        }


def attempt_of(rows: Rows, attempt_id: int) -> Recorded:
    """Raises NotToBeRun; RevisionMissing where this process lacks the revision that it ran in."""
    found = Attempt.objects.filter(pk=attempt_id, item__job=rows.job).select_related("item__stage").first()
    if found is None:
        raise NotToBeRun(f"{rows.job.label} has no attempt {attempt_id}; its item's page names them.")
    item = found.item
    if item.stage.kind == StageKind.MACHINE:
        raise NotToBeRun(
            "It is an attempt of the machine's own: to send, to undo, to expire. Those are never run again."
        )
    pin = _pin(rows, found.started_at)
    workflow, revision, configuration = (
        rows.job.workflow,
        str(pin["revision"]),
        str(pin["configuration"]),
    )
    definition = registry.pinned(workflow, revision, configuration)
    name = named_at(item.stage.name, rows.lines, found.started_at) or item.stage.name
    step = definition.step_named(name)
    if item.stage.kind == StageKind.VALIDATE:
        given: tuple[Given, ...] = (Given("", "input", rows.job.input),)
    elif step is None:
        raise registry.RevisionMissing(f"{workflow} revision {revision} has no step {name}.")
    else:
        given = _arguments(rows, item, step, found.started_at)
    saved = ""
    if found.outcome == "succeeded":
        kept = (
            Checkpoint.objects.filter(item=item, created_at__gte=found.started_at).order_by("version").first()
        )
        saved = kept.digest if kept is not None else ""
    return Recorded(found, item, name, workflow, revision, configuration, given, saved)


def _pin(rows: Rows, at: datetime) -> dict[str, Any]:
    """The last line before that which says what the job is pinned to."""
    pins = [line.evidence for line in rows.lines if line.event in _PINS and line.at <= at]
    return {**rows.lines[0].evidence, **(pins[-1] if pins else {})}


def _arguments(rows: Rows, item: WorkItem, step: Step, at: datetime) -> tuple[Given, ...]:
    version = _input_version(rows.lines, item, at, has_first=step.each is not None)
    kept = ItemInput.objects.get(item=item, version=version).value if version else ""
    corrected = json.loads(kept) if kept and step.each is None else {}
    return tuple(_argument(rows, p, kept, version, corrected, at) for p in step.parameters)


def _input_version(lines: tuple[Line, ...], item: WorkItem, at: datetime, *, has_first: bool) -> int:
    """An element has a first version; a person's correction makes the next, before the attempt that gets it begins."""
    corrected = [
        line.evidence["version"]
        for line in lines
        if line.event == "item.corrected" and line.evidence["item"] == item.pk and line.at <= at
    ]
    return int(corrected[-1]) if corrected else int(has_first)


def _argument(
    rows: Rows, parameter: Parameter, kept: str, version: int, corrected: dict[str, Any], at: datetime
) -> Given:
    name = parameter.name
    if parameter.source == "element":
        return Given(name, "element", kept or "null", version)
    if name in corrected:
        return Given(name, "a correction", json.dumps(corrected[name], ensure_ascii=False), version)
    if parameter.source == "input":
        return Given(name, "the job's input", rows.job.input)
    stages = [s.pk for s in rows.stages if named_at(s.name, rows.lines, at) == parameter.step]
    saved = Checkpoint.objects.filter(item__job=rows.job, item__stage__in=stages, created_at__lte=at)
    saved = saved.order_by("item__ordinal", "version")
    if parameter.source == "output":
        last = saved.last()
        if last is None:
            raise NotToBeRun(f"What {parameter.step} had saved by then is not there.")
        return Given(name, f"result of {parameter.step}", last.output, last.version)
    latest = {c.item_id: c.output for c in saved}
    return Given(name, f"{len(latest)} results of {parameter.step}", f"[{','.join(latest.values())}]")
