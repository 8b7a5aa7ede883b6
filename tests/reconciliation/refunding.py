"""Orders for tests, what takes them back, and what takes that back again."""

from __future__ import annotations

from tests.workflows_for_tests import orders as orders
from workflows.authoring import Applied, Ctx, OperationDraft, ProposalDraft, Workflow

returns = Workflow(
    "test-returns", revision="1", input=Applied, compensates=("test-orders", "test-again"), title="Returns"
)


@returns.propose(approval="test-policy")
def propose(ctx: Ctx, applied: Applied) -> ProposalDraft:
    return taking_back(applied)


again = Workflow(
    "test-again", revision="1", input=Applied, compensates=("test-returns",), title="Order again"
)


@again.propose(approval="test-policy")
def propose_again(ctx: Ctx, applied: Applied) -> ProposalDraft:
    return taking_back(applied)


def taking_back(applied: Applied) -> ProposalDraft:
    operation = OperationDraft(
        receiver=applied.receiver,
        action="update",
        record=applied.record,
        title=f"Take back {applied.title}",
        body={"vendor": applied.record, "takes_back": applied.receipt_id},
        amount=applied.amount,
        currency=applied.currency,
    )
    return ProposalDraft(
        title=f"Take back {applied.title}",
        summary=applied.reason,
        amount=applied.amount,
        currency=applied.currency,
        operations=(operation,),
    )
