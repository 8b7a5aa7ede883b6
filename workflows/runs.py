"""Runs of a job's steps: from where another can begin, and what the stages of an earlier one are called. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from workflows.authoring import Workflow
from workflows.authoring.steps import Step

MARK = "#"
"""Not part of any step's name; what stands behind it is the number of the run, from 1, that went before."""


def in_the_way(definition: Workflow, done: Mapping[str, bool], made: Collection[str], first: Step) -> str:
    """Why no run can begin with this step, in a sentence, or nothing.

    `done`: of the stages that are there, whether each is. `made`: the compensated steps that were begun.
    """
    if first.name not in done:
        return "It has not begun, so it runs without being asked."
    for step in definition.steps:
        if step.ordinal < first.ordinal and not done.get(step.name):
            return f"“{step.title}” has to be done first."
    for step in definition.steps:
        if step.ordinal >= first.ordinal and step.name in made:
            return (
                f"What “{step.title}” made is undone if the job ends without effect, and made anew it would be"
                " there twice. Begin with a later step, or cancel the job and submit it anew."
            )
    return ""


def origin_of(stage: str) -> tuple[str, str]:
    """The step of a stage, and in words when it was set aside if it was: by another run, or by a migration."""
    step, mark, number = stage.rpartition(MARK)
    if mark:
        return step, f"before run {int(number) + 1}"
    step, mark, revision = stage.rpartition("@")
    return (step, f"of revision {revision}") if mark else (stage, "")
