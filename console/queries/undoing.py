"""What a job's page says of a compensation: one sentence, and each step with how much of it is undone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from console import words
from console.queries.standing import Sign
from workflows.compensation.plan import Progress, Standing, StepProgress, progress_of
from workflows.models import Job


@dataclass(frozen=True, slots=True)
class UndoneStep:
    """One compensated step; `at` is when the last of it was undone."""

    title: str
    undone: int
    of: int
    sign: Sign
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Undoing:
    """`moving`: it goes on by itself, so the page looks again."""

    sentence: str
    mark: str
    moving: bool
    steps: tuple[UndoneStep, ...]
    again_at: datetime | None
    finished_at: datetime | None


def undoing_of(job: Job) -> Undoing | None:
    """The job's compensation in words, or None. Six queries at most."""
    progress = progress_of(job)
    if progress is None:
        return None
    definition = words.definition_of(job.workflow, job.revision)
    return Undoing(
        sentence=_sentence(progress),
        mark={Standing.STOPPED: "exhausted", Standing.BLOCKED: "held"}.get(progress.standing, "retry"),
        moving=progress.standing is Standing.UNDER_WAY,
        steps=tuple(_step(words.stage_title(definition, s.name), s, progress) for s in progress.steps),
        again_at=progress.again_at if progress.standing is Standing.UNDER_WAY else None,
        finished_at=progress.finished_at,
    )


def _sentence(progress: Progress) -> str:
    so_far = f"{progress.undone:,} of {progress.of:,}" if progress.of else "none yet"
    return {
        Standing.UNDER_WAY: f"Undoing what its steps made: {so_far} undone.",
        Standing.BLOCKED: f"What its steps made is not undone yet ({so_far}): its revision is not deployed.",
        Standing.STOPPED: f"What its steps made could not be undone: {so_far} undone.",
        Standing.FINISHED: "",
    }[progress.standing]


def _step(title: str, step: StepProgress, progress: Progress) -> UndoneStep:
    if step.undone == step.of:
        sign = Sign("COMPENSATED")
    elif progress.standing is Standing.FINISHED:
        sign = Sign(
            "SKIPPED", "Left as it is" if not step.undone else f"{step.of - step.undone} left as they are"
        )
    else:
        sign = Sign(
            "WAITING", "Not undone yet" if not step.undone else f"{step.undone:,} of {step.of:,} undone"
        )
    return UndoneStep(title, step.undone, step.of, sign, step.finished_at)
