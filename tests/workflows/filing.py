"""A workflow whose input names files, and whose step reads them."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from workflows.authoring import Accepts, Ctx, FileDigest, OperationDraft, ProposalDraft, Workflow


class Filing(BaseModel):
    title: str
    letter: Annotated[FileDigest, Accepts("pdf", "text")] = Field(title="Letter", description="What came in.")
    enclosure: FileDigest | None = None
    more: list[FileDigest] = Field(default_factory=list)


class Read(BaseModel):
    name: str
    kind: str
    size: int


filing = Workflow("test-filing", revision="1", input=Filing, title="Filing")


@filing.step()
def read(ctx: Ctx, filing: Filing) -> Read:
    file = ctx.read_file(filing.letter)
    return Read(name=file.name, kind=file.kind, size=len(file.content))


@filing.propose(approval="test-policy")
def propose(ctx: Ctx, read: Read) -> ProposalDraft:
    operation = OperationDraft(
        receiver="erp", action="update", record="V-1", title="File it", body={"name": read.name}
    )
    return ProposalDraft(title="File it", operations=(operation,))
