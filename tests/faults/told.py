"""A workflow whose items ask the provider, each under a name of its own; and one that gives them an hour."""

from __future__ import annotations

from pydantic import BaseModel

from examples.model_client import ask
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Retry, Workflow

FIRST, LONGEST = 0.05, 0.1
HOUR = 3600.0


class Tasks(BaseModel):
    tasks: list[str]


class Task(BaseModel):
    task: str


class TasksOut(BaseModel):
    parts: list[Task]


class Answer(BaseModel):
    said: str


def _workflow(name: str, elapsed: float | None) -> Workflow:
    made = Workflow(name, revision="1", input=Tasks, title="Asking the provider")

    @made.step()
    def split(ctx: Ctx, tasks: Tasks) -> TasksOut:
        return TasksOut(parts=[Task(task=t) for t in tasks.tasks])

    @made.step(
        each=split.parts,
        key="task",
        retry=Retry(attempts=3, first_wait=FIRST, longest_wait=LONGEST, elapsed=elapsed),
    )
    def question(ctx: Ctx, part: Task) -> Answer:
        return ask(ctx, task=part.task, prompt="What is it?", schema=Answer)

    @made.propose(approval="test-policy")
    def propose(ctx: Ctx, tasks: Tasks) -> ProposalDraft:
        operation = OperationDraft(receiver="none", action="none", record="R-1", title="None", body={})
        return ProposalDraft(title="None", operations=(operation,))

    return made


told = _workflow("test-told", elapsed=None)
told_within_an_hour = _workflow("test-told-within-an-hour", elapsed=HOUR)
