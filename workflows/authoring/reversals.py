"""What a workflow that takes back the operations of others is given as its input.

    refunds = Workflow("refunds", revision="1", input=Applied, compensates=("payments",))

    @refunds.propose(approval="refunds")
    def propose(ctx: Ctx, applied: Applied) -> ProposalDraft: ...

Nobody fills it in: an operator asks for a compensation of one applied operation, and a job of this workflow begins with
what was approved, sent and answered. Its proposal has one operation, at the same receiver, for no more than `amount`,
and names `receipt_id` somewhere.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from workflows.authoring.drafts import FieldChange
from workflows.authoring.values import Amount, Currency


class Applied(BaseModel):
    """One applied operation, and how much of it is to be taken back.

    `body` is the JSON object that was sent, empty where it was none; `changes` what was approved, with what stood there
    before. `applied_amount` is the operation's own amount, `amount` what this job is to take back of it, in `currency`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    job: str
    operation: str
    operation_key: str
    workflow: str
    receiver: str
    account: str = ""
    action: str
    record: str
    title: str
    receipt_id: str = ""
    body: dict[str, Any] = {}
    changes: tuple[FieldChange, ...] = ()
    applied_amount: Amount | None = None
    amount: Amount | None = None
    currency: Currency | None = None
    reason: str
