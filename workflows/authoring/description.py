"""What a job depends on of a definition, as JSON: its configuration digest is over this, and a comparison reads it.

In it: the shapes of input and results, the steps in their order, what they map over, how much of a fan-out is enough,
the settings, the approval policy, what can be undone. Not in it: code, wording (titles, descriptions, docstrings), and
how work is run (retries, limits, deadlines). What has its default is left out, so that a word that a later version of
the authoring API brings changes no digest.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

from pydantic import BaseModel, TypeAdapter

from workflows.authoring.policies import BadDefinition, Needs
from workflows.authoring.steps import EachSource, Step

if TYPE_CHECKING:
    from workflows.authoring.workflow import Workflow

_WORDING = frozenset(
    {"title", "description", "examples", "deprecated", "readOnly", "writeOnly", "$comment", "widget"}
)
_BY_NAME = frozenset({"properties", "$defs", "patternProperties", "dependentSchemas"})
_VALUES = frozenset({"default", "const", "enum"})


def describe(workflow: Workflow) -> str:
    """The whole definition, as canonical JSON text."""
    described: dict[str, Any] = {
        "input": _input(workflow.input),
        "settings": plain(workflow.settings, "settings"),
        "steps": {step.name: _step(step) for step in workflow.steps},
        "order": [step.name for step in workflow.steps],
        "approval": workflow.approval_policy,
    }
    if workflow.compensations:
        described["compensations"] = sorted(workflow.compensations)
    if workflow.compensates:
        described["compensates"] = sorted(workflow.compensates)
    return json.dumps(described, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def shape(schema: Any) -> Any:
    """A JSON schema without its wording, and without an order where order says nothing."""
    if isinstance(schema, list):
        return [shape(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    found: dict[str, Any] = {}
    for word, value in schema.items():
        if word in _WORDING:
            continue
        if word in _BY_NAME:
            found[word] = {name: shape(inner) for name, inner in value.items()}
        elif word == "required":
            found[word] = sorted(value)
        else:
            found[word] = value if word in _VALUES else shape(value)
    return found


def plain(value: Any, place: str) -> Any:
    """A setting as JSON, the same in every process. BadDefinition for what a job could not pin."""
    if isinstance(value, Enum):
        return plain(value.value, place)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(inner, f"{place}.{key}") for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner, f"{place}.{number}") for number, inner in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return sorted((plain(inner, place) for inner in value), key=lambda v: json.dumps(v, sort_keys=True))
    if isinstance(value, BaseModel):
        return plain(value.model_dump(mode="json"), place)
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, (Decimal, UUID, PurePath)):
        return str(value)
    raise BadDefinition(
        f"{place} is a {type(value).__name__}, which a job cannot pin: give text, numbers, lists and dicts"
    )


def _step(step: Step) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": step.kind.value, "result": _result(step.output)}
    if step.each is not None:
        described["each"] = _each(step.each)
    enough = {f.name: getattr(step.needs, f.name) for f in fields(Needs)}
    if enough := {name: value for name, value in enough.items() if value is not None}:
        described["needs"] = enough
    if step.key:
        described["key"] = step.key
    if step.waits:
        described["waits"] = True
    return described


@lru_cache(maxsize=1000)
def _input(model: type[BaseModel]) -> Any:
    """Made once: a definition is described for its digest, for what is known of it, and for comparisons."""
    return shape(model.model_json_schema())


@lru_cache(maxsize=1000)
def _result(output: TypeAdapter[Any]) -> Any:
    return shape(output.json_schema())


def _each(source: EachSource) -> str:
    return f"{source.step}.{source.field}" if source.field else source.step
