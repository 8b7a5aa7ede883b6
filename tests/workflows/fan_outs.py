"""Workflows whose fan-outs need only some of their items, name them by a key, or stand under a limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal

from pydantic import BaseModel, Field

from workflows.authoring import (
    Ctx,
    Needs,
    OperationDraft,
    Permanent,
    ProposalDraft,
    Retry,
    Retryable,
    Workflow,
)

GATE = threading.Event()
"""Records whose act is "gate" are inside their handler until a test sets it."""


class Record(BaseModel):
    code: str | int = ""
    act: str = "ok"
    wait: float = 0


class Batch(BaseModel):
    records: list[Record] = Field(default_factory=list)


class Records(BaseModel):
    records: list[Record]


class Enriched(BaseModel):
    code: str
    attempt: int


class Summary(BaseModel):
    codes: list[str]


def _workflow(
    name: str,
    *,
    needs: Needs | int | float | str = "all",
    key: str = "",
    limit: str = "",
    retry: Retry | None = None,
    deadline: timedelta | None = None,
    skippable: bool = False,
) -> Workflow:
    made = Workflow(name, revision="1", input=Batch, title=name, deadline=deadline)

    @made.step(retry=Retry(attempts=2, first_wait=0.01, longest_wait=0.01))
    def read(ctx: Ctx, batch: Batch) -> Records:
        return Records(records=batch.records)

    @made.step(
        each=read.records,
        needs=needs,
        key=key,
        limit=limit,
        skippable=skippable,
        retry=retry or Retry(attempts=2, first_wait=0.01, longest_wait=0.01),
    )
    def enrich(ctx: Ctx, record: Record) -> Enriched:
        ctx.record(route="model-a", tokens_in=60, tokens_out=40, cost=Decimal("0.5"))
        _ACTS.get(record.act, lambda _record: None)(record)
        if record.act == "once" and ctx.attempt == 1:
            raise Retryable("not yet", retry_after=record.wait)
        return Enriched(code=str(record.code), attempt=ctx.attempt)

    @made.step(each=enrich)
    def check(ctx: Ctx, enriched: Enriched) -> Summary:
        return Summary(codes=[enriched.code])

    @made.step()
    def summarise(ctx: Ctx, enriched: list[Enriched]) -> Summary:
        return Summary(codes=[e.code for e in enriched])

    @made.propose(approval="test-orders")
    def propose(ctx: Ctx, enriched: list[Enriched]) -> ProposalDraft:
        operation = OperationDraft(
            receiver="test-receiver", action="put", record="R-1", title="Put it", body={"n": len(enriched)}
        )
        return ProposalDraft(title="Put it", operations=(operation,))

    return made


def _refuse(record: Record) -> None:
    raise Permanent("this cannot work")


def _later(record: Record) -> None:
    raise Retryable("later", retry_after=record.wait)


_ACTS: dict[str, Callable[[Record], object]] = {
    "refuse": _refuse,
    "later": _later,
    "gate": lambda _record: GATE.wait(20),
}

every = _workflow("test-all", skippable=True)
most = _workflow("test-most", needs="60%")
first = _workflow("test-first", needs=Needs(count=2, patience=0))
soon = _workflow("test-soon", needs=Needs(count=1, patience=0.3))
keyed = _workflow("test-keyed", key="code")
limited = _workflow("test-limited", limit="model-a")
brief = _workflow("test-brief", retry=Retry(attempts=50, first_wait=0.01, longest_wait=0.01, elapsed=5))
hasty = _workflow("test-hasty", deadline=timedelta(seconds=0.2))
