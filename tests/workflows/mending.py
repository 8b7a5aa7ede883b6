"""A workflow whose steps stop over what they are given, so that a person has something to correct or to leave out."""

from __future__ import annotations

import threading
from typing import Annotated

from pydantic import BaseModel, StringConstraints

from workflows.authoring import (
    Ctx,
    OperationDraft,
    Permanent,
    ProposalDraft,
    Retry,
    Retryable,
    Workflow,
)

GATES: dict[int, threading.Event] = {}
"""By attempt: a line that begins with "gate" is inside its handler until a test sets it."""


class Letter(BaseModel):
    """What is sent in: `lines` one by one, and a closing that the third step looks at."""

    lines: list[str]
    closing: str = "fine"


class Line(BaseModel):
    text: Annotated[str, StringConstraints(min_length=1, max_length=40)]
    weight: float = 0.5


class Lines(BaseModel):
    lines: list[Line]


class Read(BaseModel):
    text: str


class Whole(BaseModel):
    count: int
    closing: str


letters = Workflow("test-letters", revision="1", input=Letter, title="Test letters")


@letters.step()
def split(ctx: Ctx, letter: Letter) -> Lines:
    return Lines(lines=[Line(text=text) for text in letter.lines])


@letters.step(each=split.lines, retry=Retry(attempts=2, first_wait=0.01, longest_wait=0.02), skippable=True)
def read(ctx: Ctx, line: Line) -> Read:
    if line.text.startswith("bad"):
        raise Permanent(f"cannot read {line.text}")
    if line.text.startswith("slow"):
        raise Retryable("not now")
    if line.text.startswith("gate"):
        GATES[ctx.attempt].wait(20)
    return Read(
        text=f"{line.text.upper()} {ctx.attempt}" if line.text.startswith("gate") else line.text.upper()
    )


@letters.step(title="Put together")
def put_together(ctx: Ctx, letter: Letter, read: list[Read]) -> Whole:
    if letter.closing == "broken":
        raise Permanent("the closing is broken")
    return Whole(count=len(read), closing=letter.closing)


@letters.propose(approval="letters")
def send(ctx: Ctx, whole: Whole) -> ProposalDraft:
    operation = OperationDraft(
        receiver="post", action="put", record="L-1", title="Send it", body={"count": str(whole.count)}
    )
    return ProposalDraft(title="Send it", operations=(operation,))
