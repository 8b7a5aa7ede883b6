"""Workflows that the tests of this room run: their handlers do what their input says."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workflows.authoring import (
    Amount,
    Ctx,
    Currency,
    Invalid,
    OperationDraft,
    Permanent,
    Problem,
    ProposalDraft,
    Retry,
    Retryable,
    Workflow,
)

GATE = threading.Event()
"""Items whose act is "gate" are inside their handler until a test sets it."""

CALLS = Path(os.environ.get("COUNTERFOIL_TEST_CALLS", "/dev/null"))


class Order(BaseModel):
    """What to do in each item: ok, retry, permanent, nul, surrogate, infinite, deep, huge or exit."""

    reference: str = ""
    amount: Amount | None = None
    currency: Currency = "EUR"
    acts: list[str] = Field(default_factory=list)
    refuse: bool = False


class Parts(BaseModel):
    """One element an act."""

    acts: list[str]


class Made(BaseModel):
    """Anything at all, so that what cannot be stored gets as far as the check."""

    value: Any
    attempt: int = 0


class Total(BaseModel):
    """How many were made."""

    count: int


order = Workflow(
    "test-order", revision="1", input=Order, title="Test order", reference_of=lambda o: o.reference
)


@order.validate
def check(ctx: Ctx, value: Order) -> None:
    if value.refuse:
        raise Invalid(Problem("refuse", "was asked to be refused"))


@order.step()
def split(ctx: Ctx, value: Order) -> Parts:
    return Parts(acts=value.acts)


@order.step(each=split.acts, retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.05))
def make(ctx: Ctx, act: str) -> Made:
    with CALLS.open("a") as calls:
        calls.write(f"{ctx.job_id} {ctx.item_key} {ctx.attempt} {act}\n")
    return Made(value=_act(act, ctx), attempt=ctx.attempt)


def _act(act: str, ctx: Ctx) -> Any:
    ctx.record(route="test", tokens_in=10, tokens_out=5)
    deep: list[Any] = []
    for _ in range(200):
        deep = [deep]
    values: dict[str, Any] = {
        "nul": "a\0b",
        "six": "a\\u0000b",
        "surrogate": "\ud800",
        "infinite": float("inf"),
        "deep": deep,
        "huge": "x" * 11_000_000,
    }
    if act == "permanent":
        raise Permanent("this cannot work")
    if act == "retry" or (act == "once" and ctx.attempt == 1):
        raise Retryable("not now")
    if act == "gate":
        GATE.wait(10)
    if act == "exit":
        os._exit(9)
    return values.get(act, act)


@order.step()
def count(ctx: Ctx, made: list[Made]) -> Total:
    return Total(count=len(made))


@order.propose(approval="test-orders")
def propose(ctx: Ctx, value: Order, total: Total) -> ProposalDraft:
    operation = OperationDraft(
        receiver="test-receiver", action="put", record="R-1", title="Put it", body={"count": str(total.count)}
    )
    return ProposalDraft(
        title="Put it", amount=value.amount, currency=value.currency, operations=(operation,)
    )
