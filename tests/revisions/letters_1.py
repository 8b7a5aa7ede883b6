"""Letters, revision 1: what release 1 of somebody's package brings."""

from __future__ import annotations

from pydantic import BaseModel

from tests.revisions import notes
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Retry, Workflow


class Order(BaseModel):
    """Whom to write to. Those whose name ends in "?" wait at the gate."""

    folder: str
    names: list[str]


class Names(BaseModel):
    names: list[str]


class Letter(BaseModel):
    name: str
    text: str


class Bound(BaseModel):
    letters: int


letters = Workflow("test-letters", revision="1", input=Order, title="Letters")


@letters.step()
def sort(ctx: Ctx, order: Order) -> Names:
    notes.write(order.folder, revision="1", step="sort")
    return Names(names=sorted(order.names))


@letters.step(each=sort.names, retry=Retry(attempts=5, first_wait=0.01, longest_wait=0.02))
def write(ctx: Ctx, name: str, order: Order) -> Letter:
    notes.write(order.folder, revision="1", step="write", key=ctx.item_key)
    if name.endswith("?"):
        notes.wait_at_gate(order.folder, name)
    return Letter(name=name, text=f"Dear {name}")


@letters.step()
def bind(ctx: Ctx, order: Order, written: list[Letter]) -> Bound:
    notes.write(order.folder, revision="1", step="bind")
    return Bound(letters=len(written))


@letters.propose(approval="test-letters")
def propose(ctx: Ctx, order: Order, bound: Bound) -> ProposalDraft:
    notes.write(order.folder, revision="1", step="propose")
    operation = OperationDraft(
        receiver="none", action="post", record="R-1", title="Post", body={"letters": bound.letters}
    )
    return ProposalDraft(title="Post them", operations=(operation,))
