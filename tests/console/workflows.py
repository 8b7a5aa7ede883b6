"""A workflow for the console's tests: one field of every kind that a form can show."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from workflows.authoring import Amount, Ctx, Currency, ProposalDraft, Workflow


class Urgency(StrEnum):
    LOW = "low"
    HIGH = "high"


class Address(BaseModel):
    model_config = ConfigDict(extra="forbid")

    city: Annotated[str, StringConstraints(min_length=1, max_length=80)]
    postcode: str = ""


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    reference: Annotated[str, StringConstraints(min_length=1, max_length=40)] = Field(
        description="The number of the order."
    )
    title: Annotated[str, StringConstraints(min_length=1, max_length=200)]
    quantity: int = Field(ge=1, le=500)
    amount: Amount
    currency: Currency
    urgency: Urgency = Urgency.LOW
    channel: Literal["post", "courier"]
    rush: bool = False
    lines: list[str] = Field(default_factory=list, description="What is ordered. One a line.")
    remarks: Annotated[str, StringConstraints(max_length=2000)] = ""
    address: Address


class Line(BaseModel):
    rule: str
    passes: bool


class Priced(BaseModel):
    lines: list[str]


orders = Workflow(
    "test-orders",
    revision="1",
    title="Test orders",
    input=Order,
    describe=lambda order: order.title,
    reference_of=lambda order: order.reference,
)


@orders.step(title="Price the order")
def price(ctx: Ctx, order: Order) -> Priced:
    return Priced(lines=order.lines)


@orders.step(each=price.lines, title="Check lines")
def check(ctx: Ctx, line: str) -> Line:
    return Line(rule=line, passes=True)


@orders.propose(approval="orders", title="Propose the order")
def propose(ctx: Ctx, order: Order, lines: list[Line]) -> ProposalDraft:
    raise NotImplementedError("the console's tests never run a step")
