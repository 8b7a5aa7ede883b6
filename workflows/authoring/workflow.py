"""The decorator API: a workflow is code, a job is a row that runs it.

    onboarding = Workflow("vendor-onboarding", revision="1", input=VendorChange)

    @onboarding.step(retry=Retry(attempts=3))
    def assess(ctx: Ctx, request: VendorChange) -> Assessment: ...

    @onboarding.propose(approval="vendor-records")
    def propose(ctx: Ctx, request: VendorChange, assessment: Assessment) -> ProposalDraft: ...

Steps run in the order they are written. A handler's parameters after `ctx` are filled by their annotations: the
workflow's input model, the result type of an earlier step, or `list[...]` of the result type of an earlier
`each=` step, in input order. In an `each=` step the first parameter is the one element.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, TypeAdapter

from workflows.authoring.drafts import ProposalDraft
from workflows.models import StageKind

Handler = Callable[..., Any]
_NAME = re.compile(r"[a-z][a-z0-9-]{0,79}")
VALIDATE_STAGE = "validate"


class BadDefinition(Exception):
    """The workflow's code does not say clearly what it means."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often an item of a stage is tried: up to `attempts`, with full-jitter exponential waits in seconds."""

    attempts: int = 5
    first_wait: float = 1.0
    longest_wait: float = 300.0


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where one argument of a handler comes from. `source`: input, element, output or outputs (of `step`)."""

    name: str
    source: str
    adapter: TypeAdapter[Any]
    step: str = ""


@dataclass(frozen=True)
class Step:
    """One stage of a workflow. Calling it calls the handler, so that tests can."""

    name: str
    title: str
    ordinal: int
    kind: StageKind
    handler: Handler
    retry: Retry
    parameters: tuple[Parameter, ...]
    output: TypeAdapter[Any]
    result_type: Any
    each: EachSource | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.handler(*args, **kwargs)

    def __getattr__(self, field_name: str) -> EachSource:
        if field_name.startswith("_"):
            raise AttributeError(field_name)
        fields = getattr(self.result_type, "model_fields", {})
        if field_name not in fields:
            raise AttributeError(f"{self.name} returns nothing called {field_name}")
        return EachSource(step=self.name, field=field_name)


@dataclass(frozen=True, slots=True)
class EachSource:
    """What a fan-out maps over: a field of an earlier step's result, or (no field) an earlier fan-out's results."""

    step: str
    field: str = ""


@dataclass(frozen=True)
class Workflow:
    """A workflow's definition in one revision."""

    name: str
    revision: str
    input: type[BaseModel]
    title: str = ""
    describe: Callable[[Any], str] | None = None
    """The title of a job from its input; the workflow's own title where there is none."""
    reference_of: Callable[[Any], str] | None = None
    """The business reference of a job from its input: one job a reference."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Prompts, models and the like: part of the configuration digest that a job pins."""
    steps: list[Step] = field(default_factory=list)
    validator: list[Handler] = field(default_factory=list)
    rechecks: list[Handler] = field(default_factory=list)
    approval: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadDefinition(f"{self.name!r}: a workflow is named in lower case with hyphens")

    def validate(self, handler: Handler) -> Handler:
        """The workflow's own validation: `(ctx, input)`, raising Invalid with the problems. Once."""
        if self.validator:
            raise BadDefinition(f"{self.name}: there can be one validate")
        self.validator.append(handler)
        return handler

    def step(
        self, *, each: Step | EachSource | None = None, retry: Retry | None = None, title: str = ""
    ) -> Callable[[Handler], Step]:
        """Add a step; with `each`, one work item for every element."""

        def add(handler: Handler) -> Step:
            kind = StageKind.EACH if each is not None else StageKind.STEP
            return self._add(handler, kind=kind, each=each, retry=retry, title=title)

        return add

    def propose(
        self, *, approval: str, retry: Retry | None = None, title: str = ""
    ) -> Callable[[Handler], Step]:
        """The last step: returns a ProposalDraft, which is frozen and decided under the policy named `approval`."""

        def add(handler: Handler) -> Step:
            step = self._add(handler, kind=StageKind.PROPOSE, each=None, retry=retry, title=title)
            if step.result_type is not ProposalDraft:
                raise BadDefinition(f"{self.name}: propose returns a ProposalDraft")
            self.approval.append(approval)
            return step

        return add

    def recheck(self, handler: Handler) -> Handler:
        """Facts to look at again before every first send: `(ctx, draft)`, returning sentences that object, or none."""
        self.rechecks.append(handler)
        return handler

    def step_named(self, name: str) -> Step | None:
        return next((s for s in self.steps if s.name == name), None)

    def after(self, ordinal: int) -> Step | None:
        """The step that follows `ordinal`; validation is ordinal 0."""
        return next((s for s in self.steps if s.ordinal == ordinal + 1), None)

    @property
    def approval_policy(self) -> str:
        return self.approval[0] if self.approval else ""

    def configuration_digest(self) -> str:
        """SHA-256 over what a job depends on: schemas, steps and settings."""
        described = {
            "input": self.input.model_json_schema(),
            "settings": self.settings,
            "steps": [
                [s.name, str(s.kind), repr(s.each), repr(s.retry), _schema(s.output)] for s in self.steps
            ],
            "approval": self.approval,
        }
        return hashlib.sha256(json.dumps(described, sort_keys=True, default=str).encode()).hexdigest()

    def _add(
        self,
        handler: Handler,
        *,
        kind: StageKind,
        each: Step | EachSource | None,
        retry: Retry | None,
        title: str,
    ) -> Step:
        name = handler.__name__.replace("_", "-")
        if not _NAME.fullmatch(name) or name == VALIDATE_STAGE or self.step_named(name):
            raise BadDefinition(f"{self.name}: {name!r} is no name for another step")
        if self.approval:
            raise BadDefinition(f"{self.name}: propose is the last step")
        source = EachSource(each.name) if isinstance(each, Step) else each
        hints = typing.get_type_hints(handler)
        if "return" not in hints:
            raise BadDefinition(f"{self.name}.{name}: say what it returns")
        step = Step(
            name=name,
            title=title or handler.__name__.replace("_", " ").capitalize(),
            ordinal=len(self.steps) + 1,
            kind=kind,
            handler=handler,
            retry=retry or Retry(),
            parameters=tuple(self._parameters(name, handler, hints, source)),
            output=TypeAdapter(hints["return"]),
            result_type=hints["return"],
            each=source,
        )
        self.steps.append(step)
        return step

    def _parameters(
        self, name: str, handler: Handler, hints: dict[str, Any], each: EachSource | None
    ) -> Sequence[Parameter]:
        names = list(inspect.signature(handler).parameters)[1:]
        found: list[Parameter] = []
        for position, parameter in enumerate(names):
            if parameter not in hints:
                raise BadDefinition(f"{self.name}.{name}: annotate {parameter}")
            hint = hints[parameter]
            if each is not None and position == 0:
                found.append(Parameter(parameter, "element", TypeAdapter(hint)))
            else:
                found.append(self._source_of(name, parameter, hint))
        return found

    def _source_of(self, name: str, parameter: str, hint: Any) -> Parameter:
        if hint is self.input:
            return Parameter(parameter, "input", TypeAdapter(hint))
        matches = [
            Parameter(parameter, "output", TypeAdapter(hint), s.name)
            for s in self.steps
            if s.kind is not StageKind.EACH and s.result_type == hint
        ] + [
            Parameter(parameter, "outputs", TypeAdapter(hint), s.name)
            for s in self.steps
            if s.kind is StageKind.EACH
            and typing.get_origin(hint) is list
            and typing.get_args(hint) == (s.result_type,)
        ]
        if len(matches) != 1:
            what = "nothing earlier gives" if not matches else "several steps give"
            raise BadDefinition(f"{self.name}.{name}: {what} {parameter}: {hint}")
        return matches[0]


def _schema(adapter: TypeAdapter[Any]) -> Any:
    return adapter.json_schema()
