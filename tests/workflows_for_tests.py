"""A workflow for tests: an order that is proposed as it was submitted."""

from __future__ import annotations

from pydantic import BaseModel

from workflows.authoring import Amount, Ctx, Currency, OperationDraft, ProposalDraft, Workflow


class Order(BaseModel):
    item: str
    amount: Amount
    currency: Currency


orders = Workflow("test-orders", revision="1", input=Order, title="Orders for tests")


@orders.propose(approval="test-policy")
def propose(ctx: Ctx, order: Order) -> ProposalDraft:
    operation = OperationDraft(
        receiver="erp",
        action="orders.create",
        record=order.item,
        title=f"Order {order.item}",
        body={"item": order.item, "amount": str(order.amount)},
        amount=order.amount,
        currency=order.currency,
    )
    return ProposalDraft(
        title=f"Order {order.item}", amount=order.amount, currency=order.currency, operations=(operation,)
    )
