"""One write of one record at one receiver, which no person has to approve."""

from __future__ import annotations

from pydantic import BaseModel

from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Workflow

NAME, POLICY = "fault-table", "fault-table"


class Write(BaseModel):
    """Where to, and which record."""

    receiver: str
    record: str


fault_table = Workflow(NAME, revision="1", input=Write, title="One write")


@fault_table.propose(approval=POLICY)
def write_one_record(ctx: Ctx, write: Write) -> ProposalDraft:
    operation = OperationDraft(
        receiver=write.receiver,
        action="write-record",
        record=write.record,
        title=f"Write {write.record}",
        body={"limit": "4800.00", "lines": ["first", "second"]},
    )
    return ProposalDraft(title=f"Write {write.record}", operations=(operation,))
