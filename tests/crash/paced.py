"""A workflow whose items say when they start, and take as long as its input tells them."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from pydantic import BaseModel, Field

from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Retry, Workflow

LONGEST = 60.0


class Pace(BaseModel):
    """`gated` items wait until the folder has a file "go"; all take `milliseconds`."""

    folder: str
    items: int
    gated: list[int] = Field(default_factory=list)
    milliseconds: int = 0


class Part(BaseModel):
    number: int
    gated: bool


class Parts(BaseModel):
    parts: list[Part]


class Worked(BaseModel):
    number: int
    pid: int
    attempt: int


class Counted(BaseModel):
    count: int


paced = Workflow("test-paced", revision="1", input=Pace, title="Paced")


@paced.step()
def split(ctx: Ctx, pace: Pace) -> Parts:
    return Parts(parts=[Part(number=n, gated=n in pace.gated) for n in range(1, pace.items + 1)])


@paced.step(each=split.parts, retry=Retry(attempts=100))
def work(ctx: Ctx, part: Part, pace: Pace) -> Worked:
    folder = Path(pace.folder)
    started = os.open(folder / "starts", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(started, f"{part.number} {ctx.attempt} {os.getpid()} {time.monotonic()}\n".encode())
    os.close(started)
    pause, deadline = threading.Event(), time.monotonic() + LONGEST
    pause.wait(pace.milliseconds / 1000)
    while part.gated and not (folder / "go").exists() and time.monotonic() < deadline:
        pause.wait(0.01)
    return Worked(number=part.number, pid=os.getpid(), attempt=ctx.attempt)


@paced.step()
def count(ctx: Ctx, worked: list[Worked]) -> Counted:
    return Counted(count=len(worked))


@paced.propose(approval="test-paced")
def propose(ctx: Ctx, counted: Counted) -> ProposalDraft:
    operation = OperationDraft(
        receiver="none", action="none", record="R-1", title="None", body={"count": counted.count}
    )
    return ProposalDraft(title="None", operations=(operation,))
