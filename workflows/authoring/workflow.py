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
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pydantic import BaseModel, TypeAdapter

from workflows.authoring import description
from workflows.authoring.drafts import ProposalDraft
from workflows.authoring.migrations import Migration
from workflows.authoring.policies import BadDefinition, Needs, Retry
from workflows.authoring.reversals import Applied
from workflows.authoring.steps import VALIDATE_STAGE, Compensation, EachSource, Handler, Parameter, Step
from workflows.authoring.waits import result_of
from workflows.kinds import StageKind

_NAME = re.compile(r"[a-z][a-z0-9-]{0,79}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,49}")
_DIGEST = re.compile(r"[0-9a-f]{12,64}")


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
    source_versions: list[Handler] = field(default_factory=list)
    approval: list[str] = field(default_factory=list)
    compensations: dict[str, Compensation] = field(default_factory=dict)
    compensates: tuple[str, ...] = ()
    """Names of workflows whose applied operations its jobs take back; its input is `Applied`."""
    deadline: timedelta | None = None
    """How long after its submission a job's steps may run; then it is held, with a case."""
    current: bool = False
    """New jobs take this revision, where several are loaded."""
    compatible_with: tuple[str, ...] = ()
    """Digests (their first 12 figures are enough) of this revision's earlier definitions, whose jobs this one runs."""
    migrations: list[Migration] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise BadDefinition(f"{self.name!r}: a workflow is named in lower case with hyphens")
        if not _REVISION.fullmatch(self.revision):
            raise BadDefinition(f"{self.name}: a revision is named by up to 50 of A-Z a-z 0-9 . _ -")
        if not all(_DIGEST.fullmatch(digest) for digest in self.compatible_with):
            raise BadDefinition(
                f"{self.name}: compatible_with holds digests, 12 to 64 hexadecimal figures each"
            )
        description.plain(self.settings, f"{self.name}: settings")
        if self.compensates and not issubclass(self.input, Applied):
            raise BadDefinition(f"{self.name}: what compensates other workflows has Applied as its input")
        if self.deadline is not None and self.deadline <= timedelta(0):
            raise BadDefinition(f"{self.name}: a deadline is longer than nothing")

    def validate(self, handler: Handler) -> Handler:
        """The workflow's own validation: `(ctx, input)`, raising Invalid with the problems. Once, or BadDefinition."""
        if self.validator:
            raise BadDefinition(f"{self.name}: there can be one validate")
        self.validator.append(handler)
        return handler

    def step(
        self,
        *,
        each: Step | EachSource | None = None,
        retry: Retry | None = None,
        title: str = "",
        needs: Needs | int | float | str = "all",
        key: str = "",
        limit: str = "",
        skippable: bool = False,
    ) -> Callable[[Handler], Step]:
        """Add a step; with `each`, one work item for every element, named by the element's field `key`.

        `needs`: how many of a fan-out's items are enough. `limit`: the named limit it is claimed under. `skippable`:
        an operator may go on without an item of a fan-out that stopped. `retry`: `Retry()` where there is none. The function
        becomes a `Step`, which others may name and tests may call.

        Raises BadDefinition for a function that does not say where its arguments come from or what it returns, for a name
        that is taken, and for options that mean nothing together.
        """
        if each is None and (key or skippable or needs != "all"):
            raise BadDefinition(f"{self.name}: key, needs and skippable go with each")

        def add(handler: Handler) -> Step:
            kind = StageKind.EACH if each is not None else StageKind.STEP
            return self._add(
                handler,
                kind=kind,
                each=each,
                retry=retry,
                title=title,
                needs=Needs.read(needs),
                key=key,
                limit=limit,
                skippable=skippable,
            )

        return add

    def compensate(self, step: Step) -> Callable[[Handler], Handler]:
        """How to undo what a step made that the workflow owns: `(ctx, output)`, called for each saved result.

        Only when the job ends without its effect (failed or cancelled), the last step first. It may be called twice
        for the same result, with the same `ctx.request_key`. A handler whose output is annotated `X | None` is also
        called with None for an item that was begun and gave no result: it undoes what stands under `ctx.undoes`.
        Raises BadDefinition for a step of another workflow, one that is compensated already, or another type of output.
        """

        def add(handler: Handler) -> Handler:
            if self.step_named(step.name) is not step or step.name in self.compensations:
                raise BadDefinition(f"{self.name}: {step.name} is compensated once, and is a step of it")
            self.compensations[step.name] = Compensation(handler, _takes_none(self.name, step, handler))
            return handler

        return add

    def propose(
        self, *, approval: str, retry: Retry | None = None, title: str = "", limit: str = ""
    ) -> Callable[[Handler], Step]:
        """The last step: returns a ProposalDraft, which is frozen and decided under the policy named `approval`.

        Raises BadDefinition where it returns anything else, and for any step after it.
        """

        def add(handler: Handler) -> Step:
            step = self._add(
                handler, kind=StageKind.PROPOSE, each=None, retry=retry, title=title, limit=limit
            )
            if step.result_type is not ProposalDraft:
                raise BadDefinition(f"{self.name}: propose returns a ProposalDraft")
            self.approval.append(approval)
            return step

        return add

    def recheck(self, handler: Handler) -> Handler:
        """Facts to look at again before every first send: `(ctx, draft)`, returning sentences that object, or none."""
        self.rechecks.append(handler)
        return handler

    def source_version(self, handler: Handler) -> Handler:
        """What version a source record has now: `(ctx, source, draft)`, returning it, or None where nobody can say. Once.

        Asked before every first send, at most once for each source record. A version that moved voids the proposal.
        Raises BadDefinition where there is one.
        """
        if self.source_versions:
            raise BadDefinition(f"{self.name}: there can be one source_version")
        self.source_versions.append(handler)
        return handler

    def step_named(self, name: str) -> Step | None:
        """The step of that name, or None."""
        return next((s for s in self.steps if s.name == name), None)

    def after(self, ordinal: int) -> Step | None:
        """The step that follows `ordinal`; validation is ordinal 0."""
        return next((s for s in self.steps if s.ordinal == ordinal + 1), None)

    @property
    def approval_policy(self) -> str:
        """The name of the policy that its proposals ask; empty where it names none."""
        return self.approval[0] if self.approval else ""

    def migrate(self, *, from_revision: str) -> Migration:
        """Declare how jobs of an earlier revision can go on under this one; see `migrations.py`.

        Raises BadDefinition for this revision itself, and for one that has its migration.
        """
        if from_revision == self.revision or self.migration_from(from_revision) is not None:
            raise BadDefinition(f"{self.name}: one migration from each other revision")
        self.migrations.append(Migration(self, from_revision))
        return self.migrations[-1]

    def migration_from(self, revision: str) -> Migration | None:
        """What is declared for jobs of that revision, or None."""
        return next((m for m in self.migrations if m.from_revision == revision), None)

    def described(self) -> str:
        """What a job depends on, as JSON text; see `description.py`."""
        return description.describe(self)

    def configuration_digest(self) -> str:
        """SHA-256 over `described`."""
        return hashlib.sha256(self.described().encode()).hexdigest()

    def _add(
        self,
        handler: Handler,
        *,
        kind: StageKind,
        each: Step | EachSource | None,
        retry: Retry | None,
        title: str,
        **options: Any,
    ) -> Step:
        if isinstance(handler, Step):  # of another revision
            handler = handler.handler
        name = handler.__name__.replace("_", "-")
        if not _NAME.fullmatch(name) or name == VALIDATE_STAGE or self.step_named(name):
            raise BadDefinition(f"{self.name}: {name!r} is no name for another step")
        if self.approval:
            raise BadDefinition(f"{self.name}: propose is the last step")
        source = EachSource(each.name) if isinstance(each, Step) else each
        hints = typing.get_type_hints(handler)
        if "return" not in hints:
            raise BadDefinition(f"{self.name}.{name}: say what it returns")
        parameters = tuple(self._parameters(name, handler, hints, source))
        self._check_key(name, str(options.get("key", "")), source, parameters, hints)
        result, waits = result_of(hints["return"])
        if waits and kind is StageKind.PROPOSE:
            raise BadDefinition(f"{self.name}: propose cannot wait; let a step before it")
        step = Step(
            name=name,
            title=title or handler.__name__.replace("_", " ").capitalize(),
            ordinal=len(self.steps) + 1,
            kind=kind,
            handler=handler,
            retry=retry or Retry(),
            parameters=parameters,
            output=TypeAdapter(result),
            result_type=result,
            each=source,
            waits=waits,
            **options,
        )
        self.steps.append(step)
        return step

    def _check_key(
        self,
        name: str,
        key: str,
        each: EachSource | None,
        parameters: tuple[Parameter, ...],
        hints: dict[str, Any],
    ) -> None:
        if not key:
            return
        if each is None or not each.field:
            raise BadDefinition(f"{self.name}.{name}: its items keep the keys of {each and each.step}")
        element = hints[parameters[0].name] if parameters else None
        if key not in getattr(element, "model_fields", {}):
            raise BadDefinition(f"{self.name}.{name}: its elements have no field {key!r} to be named by")

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


def _takes_none(workflow: str, step: Step, handler: Handler) -> bool:
    """Whether a compensation's handler also undoes items without a result, by its output's annotation."""
    names = list(inspect.signature(handler).parameters)
    hint = typing.get_type_hints(handler).get(names[1]) if len(names) == 2 else None
    if hint == step.result_type:
        return False
    if typing.get_origin(hint) in (typing.Union, types.UnionType) and set(typing.get_args(hint)) == {
        step.result_type,
        type(None),
    }:
        return True
    raise BadDefinition(f"{workflow}: what compensates {step.name} takes (ctx, output), its result or None")
