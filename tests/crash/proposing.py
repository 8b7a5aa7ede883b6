"""A workflow of a few parts that proposes one change; its processes die, or wait, where files in its folder say so."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from workflows.authoring import Ctx, OperationDraft, Permanent, ProposalDraft, Workflow

LONGEST = 60.0
DIE, DIED = "die-after-the-proposal", "died"


class Change(BaseModel):
    """`gate`: a file in the folder that its parts wait for; `refuse`: every part fails for good."""

    folder: str
    record: str
    parts: int = 1
    gate: str = ""
    refuse: bool = False


class Part(BaseModel):
    number: int


class Parts(BaseModel):
    parts: list[Part]


class Worked(BaseModel):
    pid: int


changes = Workflow("test-changes", revision="1", input=Change, title="Changes")


@changes.step()
def split(ctx: Ctx, change: Change) -> Parts:
    return Parts(parts=[Part(number=n) for n in range(1, change.parts + 1)])


@changes.step(each=split.parts)
def work(ctx: Ctx, part: Part, change: Change) -> Worked:
    pause, until = threading.Event(), time.monotonic() + LONGEST
    while change.gate and not (Path(change.folder) / change.gate).exists() and time.monotonic() < until:
        pause.wait(0.01)
    if change.refuse:
        raise Permanent("this cannot work")
    return Worked(pid=os.getpid())


@changes.propose(approval="test-policy")
def propose(ctx: Ctx, change: Change) -> ProposalDraft:
    try:
        (Path(change.folder) / DIE).unlink()
    except FileNotFoundError:
        pass
    else:
        (Path(change.folder) / DIED).write_text(str(os.getpid()))
        _die_after_the_commit()
    operation = OperationDraft(
        receiver="erp", action="update", record=change.record, title="Change it", body={"limit": "4800.00"}
    )
    return ProposalDraft(title="Change it", operations=(operation,))


def _die_after_the_commit() -> None:
    """The process dies when the batch that holds this result is committed, and before anything that follows it."""
    from workflows.engine.aftermath import Aftermath

    def die(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    Aftermath.follow = die  # type: ignore[method-assign]
