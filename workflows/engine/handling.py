"""What an attempt gives a handler and takes from a validation, wherever the texts come from: rows, or a test's memory."""

from __future__ import annotations

from pydantic import TypeAdapter, ValidationError

from workflows.authoring import Ctx, Invalid, Workflow

PROBLEMS: TypeAdapter[list[dict[str, str]]] = TypeAdapter(list[dict[str, str]])
"""The output of a validation: empty when nothing is wrong."""


def problems_of(definition: Workflow, ctx: Ctx, text: str) -> list[dict[str, str]]:
    """What the input model and the workflow's own validation say is wrong with an input."""
    try:
        value = definition.input.model_validate_json(text)
        for validator in definition.validator:
            validator(ctx, value)
    except ValidationError as error:
        return [
            {"field": ".".join(str(p) for p in e["loc"]), "message": e["msg"]}
            for e in error.errors(include_url=False, include_input=False)
        ]
    except Invalid as refused:
        return [{"field": p.field, "message": p.message} for p in refused.problems]
    return []


def request_key(workflow: str, job_id: int, item_id: int) -> str:
    """The key of an item's calls, the same over its attempts; what a migration has done again is another item."""
    return f"{workflow}-{job_id}-{item_id}"
