"""Workflows whose steps wait, as their input says. How often a handler was called stands in CALLS."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from workflows.authoring import (
    Ctx,
    Event,
    OperationDraft,
    ProposalDraft,
    Question,
    Retry,
    Sleep,
    Woken,
    Workflow,
)

CALLS = Path(os.environ.get("COUNTERFOIL_TEST_CALLS", "/dev/null"))


class Order(BaseModel):
    """What is waited for, and how long: seconds, for ever where there are none."""

    reference: str = "R-7"
    within: float | None = None
    source: str = ""
    nap: float = 0.0
    parcels: list[str] = Field(default_factory=list)
    known: bool = False
    role: str = "operator"


class Shipment(BaseModel):
    """What the carrier tells."""

    model_config = ConfigDict(extra="forbid")

    carrier: str = Field(min_length=1, max_length=40)
    parcels: int = Field(ge=1)


class Address(BaseModel):
    """What a person answers."""

    model_config = ConfigDict(extra="forbid")

    street: str = Field(min_length=1, max_length=80)
    country: str = Field(pattern="^[A-Z]{2}$")


class Label(BaseModel):
    """What comes of it."""

    text: str


def _within(order: Order) -> timedelta | None:
    return None if order.within is None else timedelta(seconds=order.within)


def _called(ctx: Ctx, step: str) -> None:
    with CALLS.open("a") as calls:
        calls.write(f"{step} {ctx.job_id} {ctx.item_key} {ctx.attempt}\n")


shipping = Workflow("test-shipping", revision="1", input=Order, title="Shipping")


@shipping.step(retry=Retry(attempts=1))
def shipped(ctx: Ctx, order: Order) -> Event[Shipment] | Shipment:
    _called(ctx, "shipped")
    if order.known:
        return Shipment(carrier="ours", parcels=1)
    return Event(key=f"shipment {order.reference}", within=_within(order), source=order.source)


@shipping.step()
def label(ctx: Ctx, shipment: Shipment) -> Label:
    _called(ctx, "label")
    return Label(text=f"{shipment.parcels} by {shipment.carrier}")


asking = Workflow("test-asking", revision="1", input=Order, title="Asking")


@asking.step()
def where(ctx: Ctx, order: Order) -> Question[Address]:
    text = f"Where does {order.reference} go?".replace("NUL", "\0").replace("HALF", "\ud800")
    asked = Question[Address](text.replace("UNCHECKED", ""), role=order.role, within=_within(order))
    if "UNCHECKED" in text:
        object.__setattr__(asked, "text", text.replace("UNCHECKED", "\0"))
    return asked


@asking.step()
def stick(ctx: Ctx, address: Address) -> Label:
    return Label(text=f"{address.street}, {address.country}")


napping = Workflow("test-napping", revision="1", input=Order, title="Napping")


@napping.step(retry=Retry(attempts=1))
def nap(ctx: Ctx, order: Order) -> Sleep:
    _called(ctx, "nap")
    return Sleep(timedelta(seconds=order.nap))


@napping.step()
def rise(ctx: Ctx, woken: Woken) -> Label:
    return Label(text=woken.at.isoformat())


parcels = Workflow("test-parcels", revision="1", input=Order, title="Parcels")


class List(BaseModel):
    """The parcels of an order."""

    parcels: list[str]


@parcels.step()
def pack(ctx: Ctx, order: Order) -> List:
    return List(parcels=order.parcels)


@parcels.step(each=pack.parcels, needs=2)
def arrived(ctx: Ctx, parcel: str, order: Order) -> Event[Shipment]:
    return Event[Shipment](key=f"parcel {parcel}", within=_within(order))


@parcels.step()
def tally(ctx: Ctx, shipments: list[Shipment]) -> Label:
    return Label(text=", ".join(s.carrier for s in shipments))


def propose(ctx: Ctx, label: Label) -> ProposalDraft:
    operation = OperationDraft(
        receiver="test-receiver", action="put", record="R-1", title="Print it", body={"text": label.text}
    )
    return ProposalDraft(title="Print it", operations=(operation,))


for workflow in (shipping, asking, napping, parcels):
    workflow.propose(approval="test-labels")(propose)
del workflow
