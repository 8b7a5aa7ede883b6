"""The workflows that `make bench` runs: a fan-out, a chain of fifty steps, and one that can be killed in its step."""

from __future__ import annotations

import time
from decimal import Decimal

from pydantic import BaseModel

from bench import CHAIN
from workflows.authoring import Ctx, OperationDraft, ProposalDraft, Workflow


class Size(BaseModel):
    """How many items to fan out to."""

    items: int


class Elements(BaseModel):
    """What is fanned out over."""

    elements: list[int]


class Small(BaseModel):
    """A result of about two hundred bytes, as the peers' handlers return."""

    i: int
    text: str


fan_out = Workflow("bench-fan-out", revision="1", input=Size, title="Fan-out")


@fan_out.step()
def spread(ctx: Ctx, size: Size) -> Elements:
    return Elements(elements=list(range(size.items)))


@fan_out.step(each=spread.elements)
def small(ctx: Ctx, i: int) -> Small:
    return Small(i=i, text="x" * 200)


class Nothing(BaseModel):
    """No input."""


chain = Workflow("bench-chain", revision="1", input=Nothing, title="Chain")


def _link(number: int) -> None:
    def link(ctx: Ctx) -> Small:
        return Small(i=number, text="x" * 200)

    link.__name__ = f"link_{number}"
    chain.step()(link)


for _number in range(CHAIN):
    _link(_number)


class Pause(BaseModel):
    """How long the step takes, in milliseconds."""

    milliseconds: int


paused = Workflow("bench-paused", revision="1", input=Pause, title="Paused")


@paused.step()
def pause(ctx: Ctx, length: Pause) -> Small:
    """Long enough to be killed in the first attempt; at once in the second."""
    if ctx.attempt == 1:
        time.sleep(length.milliseconds / 1000)
    return Small(i=1, text="")


whole = Workflow("bench-whole", revision="1", input=Nothing, title="Whole")


@whole.propose(approval="waived")
def change_one_record(ctx: Ctx) -> ProposalDraft:
    operation = OperationDraft(
        receiver="local",
        action="update-vendor",
        record=f"V-{ctx.job_id}",
        title="Change",
        body={"limit": "4800.00"},
    )
    return ProposalDraft(title="Change a record", operations=(operation,))


class Worth(BaseModel):
    """What it is about, in EUR."""

    amount: str


asked = Workflow("bench-approval", revision="1", input=Worth, title="Approval")


@asked.propose(approval="bench")
def change_for_an_amount(ctx: Ctx, worth: Worth) -> ProposalDraft:
    operation = OperationDraft(
        receiver="local",
        action="update-vendor",
        record=f"V-{ctx.job_id}",
        title="Change",
        body={"limit": worth.amount},
    )
    return ProposalDraft(
        title="Change a record",
        amount=Decimal(worth.amount),
        currency="EUR",
        amount_label="New limit",
        operations=(operation,),
    )


def propose_nothing(ctx: Ctx) -> ProposalDraft:
    operation = OperationDraft(receiver="nowhere", action="none", record="none", title="None", body={})
    return ProposalDraft(title="Never sent", operations=(operation,))


for _workflow in (fan_out, chain, paused):
    _workflow.propose(approval="none")(propose_nothing)
