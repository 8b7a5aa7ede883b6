"""Letters, revision 3: names have become people, and a step that is new stands before what revision 1 had written."""

from __future__ import annotations

import threading
from typing import Any

from pydantic import BaseModel

from tests.revisions import notes
from tests.revisions.letters_1 import Bound, Letter, Order
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Retry, Workflow

GATE = threading.Event()
"""What a conversion of somebody called "Gate" waits for."""


class Somebody(BaseModel):
    name: str
    title: str


class People(BaseModel):
    people: list[Somebody]


class Paper(BaseModel):
    sheets: int


letters_3 = Workflow("test-letters", revision="3", input=Order, title="Letters", current=True)


@letters_3.step()
def sort(ctx: Ctx, order: Order) -> People:
    notes.write(order.folder, revision="3", step="sort")
    return People(people=[Somebody(name=name, title="") for name in sorted(order.names)])


@letters_3.step(each=sort.people, retry=Retry(attempts=5, first_wait=0.01, longest_wait=0.02))
def write(ctx: Ctx, somebody: Somebody, order: Order) -> Letter:
    notes.write(order.folder, revision="3", step="write", key=ctx.item_key)
    return Letter(name=somebody.name, text=f"Dear {somebody.title} {somebody.name}")


@letters_3.step()
def fold(ctx: Ctx, order: Order, letters: list[Letter]) -> Paper:
    notes.write(order.folder, revision="3", step="fold")
    return Paper(sheets=len(letters))


@letters_3.step()
def bind(ctx: Ctx, order: Order, letters: list[Letter]) -> Bound:
    notes.write(order.folder, revision="3", step="bind")
    return Bound(letters=len(letters))


@letters_3.propose(approval="test-letters")
def propose(ctx: Ctx, order: Order, paper: Paper, bound: Bound) -> ProposalDraft:
    notes.write(order.folder, revision="3", step="propose")
    body = {"letters": bound.letters, "sheets": paper.sheets}
    operation = OperationDraft(receiver="none", action="post", record="R-1", title="Post", body=body)
    return ProposalDraft(title="Post them", operations=(operation,))


from_1 = letters_3.migrate(from_revision="1")


@from_1.convert(sort)
def people_of(old: dict[str, Any]) -> People:
    return People(people=[Somebody(name=name, title="Dr") for name in old["names"]])


@from_1.convert(write)
def gated(old: dict[str, Any]) -> dict[str, Any]:
    if old["name"] == "Gate":
        GATE.wait(20)
    return old
