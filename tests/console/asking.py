"""A workflow that asks, for the console's tests: one answer with a field of every kind that matters."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from workflows.authoring import Ctx, Event, OperationDraft, ProposalDraft, Question, Workflow


class Order(BaseModel):
    reference: str = "R-7"
    role: str = "operator"
    hours: float | None = None
    text: str = ""


class Box(BaseModel):
    model_config = ConfigDict(extra="forbid")

    width: int = Field(ge=1)


class Transport(BaseModel):
    model_config = ConfigDict(extra="forbid")

    way: Literal["by hand", "by lorry"] = Field(description="By hand up to 30 kg.")
    parcels: int = Field(ge=1)
    note: Annotated[str, Field(max_length=500)] = ""
    fragile: bool = False
    box: Box


asking = Workflow(
    "test-asking", revision="1", input=Order, title="Asking", describe=lambda o: f"Order {o.reference}"
)


@asking.step(title="Choose the transport")
def transport(ctx: Ctx, order: Order) -> Question[Transport]:
    within = None if order.hours is None else timedelta(hours=order.hours)
    return Question(order.text or f"How does {order.reference} travel?", role=order.role, within=within)


@asking.step()
def shipped(ctx: Ctx, order: Order, transport: Transport) -> Event[Box]:
    return Event(key=f"shipment {order.reference}", within=timedelta(days=3))


@asking.propose(approval="test-policy")
def propose(ctx: Ctx, order: Order, transport: Transport) -> ProposalDraft:
    operation = OperationDraft(
        receiver="erp", action="put", record=order.reference, title="Ship it", body={"way": transport.way}
    )
    return ProposalDraft(title="Ship it", operations=(operation,))
