"""Words for what the rows say in code: workflows, stages."""

from __future__ import annotations

import re

from workflows import registry
from workflows.authoring import Workflow
from workflows.authoring.steps import VALIDATE_STAGE
from workflows.runs import origin_of
from workflows.titles import in_words


def stage_title(workflow: Workflow | None, name: str) -> str:
    """The title of a stage in a definition, or its name in words; of one that was set aside, when that was."""
    name, aside = origin_of(name)
    if name == VALIDATE_STAGE:
        title = "Validate input"
    else:
        step = workflow.step_named(name) if workflow is not None else None
        title = step.title if step is not None else in_words(name)
    return f"{title} {aside}".rstrip()


def definition_of(name: str, revision: str) -> Workflow | None:
    """The definition in this revision if this process has it. Its configuration may be another: for words only."""
    return registry.workflows().get((name, revision))


def refusal_in_words(name: str) -> str:
    """SomebodyElseIsDeciding as somebody else is deciding: journals name a refusal by its class."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", name).lower()


def several(count: int, one: str, many: str = "") -> str:
    """1 job, 2 jobs."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
