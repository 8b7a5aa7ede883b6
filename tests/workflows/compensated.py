"""A workflow that keeps what it makes as files in a folder, and takes them away again: its handlers do as told.

The folder has files "<step>-<key>" for what stands, and "log" with a line for each thing done, in order.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from django.db import connection, transaction
from pydantic import BaseModel, Field

from workflows.authoring import Ctx, OperationDraft, Permanent, ProposalDraft, Retry, Retryable, Workflow

GATE_SECONDS = 60.0


class Plan(BaseModel):
    """`fails`: the last step cannot succeed. `slow`: parts whose making waits for a file "go"."""

    folder: str
    parts: int = 3
    fails: bool = True
    slow: list[int] = Field(default_factory=list)


class Shelf(BaseModel):
    folder: str
    numbers: list[int]


class Part(BaseModel):
    number: int
    folder: str


class Note(BaseModel):
    folder: str


class Counted(BaseModel):
    parts: int


keeping = Workflow(
    "test-keeping", revision="1", input=Plan, title="Keeping", reference_of=lambda plan: plan.folder
)


@keeping.step()
def shelf(ctx: Ctx, plan: Plan) -> Shelf:
    _make(plan.folder, "shelf")
    return Shelf(folder=plan.folder, numbers=list(range(1, plan.parts + 1)))


@keeping.step(each=shelf.numbers, retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.01))
def part(ctx: Ctx, number: int, plan: Plan) -> Part:
    _make(plan.folder, f"part-{number}")
    if number in plan.slow:
        _wait_for(Path(plan.folder) / "go")
        _make(plan.folder, f"part-{number}-late")
    return Part(number=number, folder=plan.folder)


@keeping.step()
def count(ctx: Ctx, parts: list[Part]) -> Counted:
    """Makes nothing that would have to be undone."""
    return Counted(parts=len(parts))


@keeping.step()
def note(ctx: Ctx, counted: Counted, plan: Plan) -> Note:
    _make(plan.folder, "note")
    return Note(folder=plan.folder)


@keeping.step()
def last(ctx: Ctx, note: Note, plan: Plan) -> Plan:
    if plan.fails:
        raise Permanent("The last step was told to fail.")
    return plan


@keeping.propose(approval="test-policy")
def propose(ctx: Ctx, counted: Counted) -> ProposalDraft:
    operation = OperationDraft(
        receiver="erp", action="update", record="V-1", title="Put it", body={"count": str(counted.parts)}
    )
    return ProposalDraft(title="Put it", operations=(operation,))


@keeping.compensate(shelf)
def take_shelf(ctx: Ctx, shelf: Shelf) -> None:
    _take(ctx, shelf.folder, "shelf")


@keeping.compensate(part)
def take_part(ctx: Ctx, part: Part | None) -> None:
    """Also for what was begun: it is found by the key that it was made with."""
    assert part is None or str(part.number) == ctx.item_key
    _take(ctx, ctx.reference, f"part-{ctx.item_key}", "" if part else " without a result")


@keeping.compensate(note)
def take_note(ctx: Ctx, note: Note) -> None:
    _take(ctx, note.folder, "note")


def _make(folder: str, name: str) -> None:
    (Path(folder) / name).touch()
    _log(folder, f"made {name}")


def _take(ctx: Ctx, folder: str, name: str, more: str = "") -> None:
    """Take what stands under a name away, unless a file "refuse-<name>" or "busy-<name>" says otherwise."""
    place = Path(folder)
    _log(folder, f"undo {name}{more} {ctx.request_key}")
    if (place / f"refuse-{name}").exists():
        raise Permanent("It cannot be taken away.")
    if (place / f"mess-{name}").exists():
        transaction.set_autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("SET ROLE counterfoil_engine")
    if (place / f"busy-{name}").exists():
        (place / f"busy-{name}").unlink()
        raise Retryable("Somebody holds it.", retry_after=0.05)
    for stands in [*place.glob(name), *place.glob(f"{name}-late")]:
        stands.unlink()
        _log(folder, f"took {stands.name}")
    if (place / f"hang-{name}").exists():
        _wait_for(place / "go")


def _log(folder: str, line: str) -> None:
    log = os.open(Path(folder) / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(log, f"{line}\n".encode())
    os.close(log)


def _wait_for(path: Path) -> None:
    pause, deadline = threading.Event(), time.monotonic() + GATE_SECONDS
    while not path.exists() and time.monotonic() < deadline:
        pause.wait(0.01)
