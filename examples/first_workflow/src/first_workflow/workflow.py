"""First workflow.

Lines of text are sorted by a model, and what comes of it is proposed as one record.

Steps run in the order they are written. What follows `ctx` is filled by its type: the input, the result of an
earlier step, or a list of the results of an earlier `each` step.
"""

from typing import Annotated, Literal

from dispatch.authoring import find_record
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from workflows.authoring import (
    Ctx,
    FieldChange,
    Invalid,
    OperationDraft,
    Problem,
    ProposalDraft,
    Retry,
    Workflow,
)

MODEL = "atlas-small"
RECEIVER = "first-workflow"
"""As counterfoil.toml names it."""


class Request(BaseModel):
    """What a submitter asks for. The form and the API's schema are made from it."""

    model_config = ConfigDict(extra="forbid")

    reference: Annotated[str, StringConstraints(pattern=r"^[A-Z0-9][A-Z0-9-]{2,39}$")] = Field(
        title="Reference",
        description="Your own number for this request, such as R-2026-001. One job is made for each.",
    )
    lines: list[str] = Field(title="Lines", description="What is to be sorted, one a line.")


class Lines(BaseModel):
    """The lines that are left to sort."""

    lines: list[str]


class Answer(BaseModel):
    """What the model is asked for."""

    kind: Literal["travel", "office", "other"]
    reason: str


class Entry(BaseModel):
    """One sorted line."""

    line: str
    kind: str
    reason: str


workflow = Workflow(
    "first-workflow",
    revision="1",
    input=Request,
    title="First workflow",
    describe=lambda request: f"Sort the lines of {request.reference}",
    reference_of=lambda request: str(request.reference),
    settings={"model": MODEL, "prompt": 1},
)


@workflow.validate
def validate(ctx: Ctx, request: Request) -> None:
    """What the shape of the input cannot say."""
    if not any(line.strip() for line in request.lines):
        raise Invalid(Problem("lines", "give at least one line"))


@workflow.step(title="Tidy up")
def tidy(ctx: Ctx, request: Request) -> Lines:
    """Each line once, without blanks."""
    lines = [line.strip() for line in request.lines]
    return Lines(lines=list(dict.fromkeys(line for line in lines if line)))


@workflow.step(each=tidy.lines, retry=Retry(attempts=3), title="Sort")
def sort(ctx: Ctx, line: str) -> Entry:
    """One work item for each line: a saved answer is never asked for again."""
    prompt = f"Which kind of expense is this, and why?\n<<<\n{line}\n>>>"
    answer = ctx.ask(prompt, answer=Answer, model=MODEL)
    return Entry(line=line, kind=answer.kind, reason=answer.reason)


@workflow.propose(approval="first-workflow", title="Propose")
def propose(ctx: Ctx, request: Request, entries: list[Entry]) -> ProposalDraft:
    """The intent, in full. Nothing is sent before it is approved, and exactly this is sent then."""
    changes = [
        FieldChange(
            field=f"line_{number}",
            label=entry.line[:300],
            proposed=entry.kind,
            source=f"Model {MODEL}",
            by_model=True,
        )
        for number, entry in enumerate(entries, start=1)
    ]
    operation = OperationDraft(
        receiver=RECEIVER,
        action="put",
        record=request.reference,
        title=f"Write {request.reference}",
        changes=tuple(changes),
        body={change.field: change.proposed for change in changes},
    )
    return ProposalDraft(
        title=f"Sort the lines of {request.reference}",
        model_text="\n".join(f"{entry.line}: {entry.reason}" for entry in entries),
        model_route=MODEL,
        operations=(operation,),
    )


@workflow.recheck
def recheck(ctx: Ctx, draft: ProposalDraft) -> list[str]:
    """Looked at again just before the first send: what has changed since the approval voids it."""
    record = draft.operations[0].record
    if find_record(ctx, receiver=RECEIVER, path=f"keyed/records/{record}") is None:
        return []
    return [f"{record} has been written meanwhile."]
