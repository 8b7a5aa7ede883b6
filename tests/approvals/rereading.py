"""A workflow that reads a record which moves on, looks at it in parts, and proposes what it read; and one that makes something."""

from __future__ import annotations

import threading

from pydantic import BaseModel

from workflows.authoring import Ctx, OperationDraft, Permanent, ProposalDraft, SourceRecord, Workflow

RECORD = {"version": 41}
"""What somebody else changes meanwhile."""
READ: list[int] = []
"""The versions that were read, in order."""
GATE = threading.Event()
"""A part called "gate" is inside its handler until a test sets it."""
INSIDE = threading.Semaphore(0)


class Ask(BaseModel):
    parts: list[str] = []


class Record(BaseModel):
    version: int
    parts: list[str]


class Seen(BaseModel):
    part: str


rereading = Workflow("test-rereading", revision="1", input=Ask, title="Rereading")


@rereading.step()
def read(ctx: Ctx, ask: Ask) -> Record:
    READ.append(RECORD["version"])
    return Record(version=RECORD["version"], parts=ask.parts)


@rereading.step(each=read.parts, skippable=True)
def look(ctx: Ctx, part: str) -> Seen:
    if part == "bad":
        raise Permanent("cannot look at it")
    if part == "gate":
        INSIDE.release()
        GATE.wait(20)
    return Seen(part=part)


@rereading.propose(approval="test-policy")
def propose(ctx: Ctx, record: Record, seen: list[Seen]) -> ProposalDraft:
    return _draft(record.version, len(seen))


made = Workflow("test-made-again", revision="1", input=Ask, title="Made again")


@made.step()
def make(ctx: Ctx, ask: Ask) -> Record:
    return Record(version=1, parts=[])


@made.compensate(make)
def unmake(ctx: Ctx, record: Record) -> None:
    """Nothing was really made."""


@made.propose(approval="test-policy")
def propose_made(ctx: Ctx, record: Record) -> ProposalDraft:
    return _draft(record.version, 0)


def _draft(version: int, looks: int) -> ProposalDraft:
    return ProposalDraft(
        title=f"Version {version}, looked at {looks} times",
        sources=(SourceRecord(name="V-1", version=str(version)),),
        operations=(
            OperationDraft(receiver="erp", action="put", record="V-1", title="Put", body={"v": str(version)}),
        ),
    )
