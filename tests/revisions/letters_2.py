"""Letters, revision 2: another module, a step that was renamed, one that is new, and other shapes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from tests.revisions import notes
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Retry, Workflow


class LetterOrder(BaseModel):
    folder: str
    names: list[str]
    language: str


class SortedNames(BaseModel):
    names: list[str]


class Page(BaseModel):
    """What a letter is now: it was called a text, and had no language."""

    name: str
    body: str
    language: str


class Read(BaseModel):
    errors: int


class Bundle(BaseModel):
    letters: int


letters_2 = Workflow("test-letters", revision="2", input=LetterOrder, title="Letters", current=True)


@letters_2.step()
def sort(ctx: Ctx, order: LetterOrder) -> SortedNames:
    notes.write(order.folder, revision="2", step="sort")
    return SortedNames(names=sorted(order.names))


@letters_2.step(each=sort.names, retry=Retry(attempts=7, first_wait=0.01, longest_wait=0.02))
def compose(ctx: Ctx, name: str, order: LetterOrder) -> Page:
    notes.write(order.folder, revision="2", step="compose", key=ctx.item_key)
    if name.endswith("?"):
        notes.wait_at_gate(order.folder, name)
    return Page(name=name, body=f"Dear {name},", language=order.language)


@letters_2.step()
def proofread(ctx: Ctx, order: LetterOrder, pages: list[Page]) -> Read:
    notes.write(order.folder, revision="2", step="proofread")
    return Read(errors=sum(page.body.count("?") for page in pages))


@letters_2.step()
def bind(ctx: Ctx, order: LetterOrder, pages: list[Page], read: Read) -> Bundle:
    notes.write(order.folder, revision="2", step="bind")
    return Bundle(letters=len(pages))


@letters_2.propose(approval="test-letters")
def propose(ctx: Ctx, order: LetterOrder, bundle: Bundle) -> ProposalDraft:
    notes.write(order.folder, revision="2", step="propose")
    operation = OperationDraft(
        receiver="none", action="post", record="R-1", title="Post", body={"letters": bundle.letters}
    )
    return ProposalDraft(title="Post them", operations=(operation,))


from_1 = letters_2.migrate(from_revision="1")


@from_1.input
def in_english(old: dict[str, Any]) -> dict[str, Any]:
    return {**old, "language": "en"}


@from_1.convert(compose, was="write")
def page_of(old: dict[str, Any]) -> Page:
    if old["name"].startswith("Nobody"):
        raise ValueError("there is no such person")
    return Page(name=old["name"], body=old["text"], language="en")


from_1.again(bind)
