"""What a workflow's definition consists of: its steps, and where their arguments come from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from workflows.authoring.policies import Needs, Retry
from workflows.kinds import StageKind

Handler = Callable[..., Any]
VALIDATE_STAGE = "validate"


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
    needs: Needs = Needs()  # noqa: RUF009 - frozen
    key: str = ""
    """The field of each element that names its item; its position where there is none."""
    limit: str = ""
    """The named limit that its items are claimed under."""
    skippable: bool = False
    """Whether an operator may go on without an item that stopped."""
    waits: bool = False
    """It returns a Sleep, an Event or a Question; its output is what ended the wait."""

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


@dataclass(frozen=True, slots=True)
class Compensation:
    """What undoes a step's results. `takes_none`: also items that were begun and gave none."""

    handler: Handler
    takes_none: bool = False
