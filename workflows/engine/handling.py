"""What an attempt gives a handler and takes from a validation, wherever the texts come from: rows, or a test's memory."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from workflows import wording
from workflows.authoring import Ctx, Invalid, Retry, Sleep, Woken, Workflow
from workflows.authoring.steps import Step
from workflows.authoring.waits import BadWait
from workflows.claims import MACHINE_ATTEMPTS

MACHINE_RETRY = Retry(attempts=MACHINE_ATTEMPTS, first_wait=0.5, longest_wait=60.0, timeout=900.0)

PROBLEMS: TypeAdapter[list[dict[str, str]]] = TypeAdapter(list[dict[str, str]])
"""The output of a validation: empty when nothing is wrong."""


def problems_of(definition: Workflow, ctx: Ctx, text: str) -> list[dict[str, str]]:
    """What the input model and the workflow's own validation say is wrong with an input."""
    try:
        value = definition.input.model_validate_json(text)
        for validator in definition.validator:
            validator(ctx, value)
    except ValidationError as error:
        return [{"field": place, "message": said} for place, said in wording.problems_in(error)]
    except Invalid as refused:
        return [{"field": p.field, "message": p.message} for p in refused.problems]
    return []


def request_key(workflow: str, job_id: int, item_id: int) -> str:
    """The key of an item's calls, the same over its attempts; what a migration has done again is another item."""
    return f"{workflow}-{job_id}-{item_id}"


class WaitExpired(Exception):
    """Nothing came in the time that the step gave it. More attempts ask again."""


def check_wait(step: Step, wait: Any) -> None:
    """BadWait where a step asked for another wait than it declares."""
    if isinstance(wait, Sleep) is not (step.result_type is Woken):
        raise BadWait(
            f"{step.name} says that it returns {step.result_type.__name__}, and asked for {wait!r:.300}."
        )


def wait_expired(*, is_event: bool, what: str, due_at: datetime) -> str:
    """What is said of a wait for an event's key, or for the answer to a question, that is over."""
    until = f"until {due_at:%Y-%m-%d %H:%M} UTC"
    if is_event:
        return f"The event “{what}” was waited for {until}, and did not come. More attempts wait again."
    return f"An answer was waited for {until}, and nobody gave one. More attempts ask again: {what}"
