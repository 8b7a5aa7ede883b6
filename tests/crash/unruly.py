"""A workflow for the engine under faults: what each item does is in its input, and each call leaves a line."""

from __future__ import annotations

import os
import signal
import time
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel

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


class Deed(BaseModel):
    """ok, slow, retry (until the third attempt), never, permanent, nul or die (the first time)."""

    code: str
    act: str


class Plan(BaseModel):
    folder: str
    deeds: list[Deed]


class Deeds(BaseModel):
    deeds: list[Deed]


class Done(BaseModel):
    code: str
    text: str


class Count(BaseModel):
    codes: list[str]


def _make(name: str, needs: Needs | str, limit: str = "") -> Workflow:
    made = Workflow(name, revision="1", input=Plan, title=name)

    @made.step()
    def read(ctx: Ctx, plan: Plan) -> Deeds:
        return Deeds(deeds=plan.deeds)

    @made.step(
        each=read.deeds,
        key="code",
        needs=needs,
        limit=limit,
        skippable=True,
        retry=Retry(attempts=4, first_wait=0.02, longest_wait=0.1),
    )
    def do(ctx: Ctx, deed: Deed, plan: Plan) -> Done:
        with Path(plan.folder, "calls").open("a") as calls:
            calls.write(f"{ctx.job_id} {ctx.item_key} {ctx.attempt}\n")
        if deed.act == "die" and _first_time(Path(plan.folder, f"died-{ctx.job_id}-{ctx.item_key}")):
            os.kill(os.getpid(), signal.SIGKILL)
        ctx.record(route="unruly", tokens_in=1, cost=Decimal("0.01"))
        return Done(code=deed.code, text=_act(deed.act, ctx.attempt))

    @made.step()
    def count(ctx: Ctx, done: list[Done]) -> Count:
        return Count(codes=[d.code for d in done])

    @made.propose(approval="nobody")
    def propose(ctx: Ctx, count: Count) -> ProposalDraft:
        operation = OperationDraft(receiver="none", action="put", record="R", title="Put", body={})
        return ProposalDraft(title="Put", operations=(operation,))

    return made


def _first_time(mark: Path) -> bool:
    if mark.exists():
        return False
    mark.touch()
    return True


def _act(act: str, attempt: int) -> str:
    if act == "permanent":
        raise Permanent("this cannot work")
    if act == "never" or (act == "retry" and attempt < 3):
        raise Retryable("not now")
    if act == "slow":
        time.sleep(0.3)
    return "a\0b" if act == "nul" else act


every = _make("unruly-all", "all")
some = _make("unruly-some", "50%")
first = _make("unruly-first", Needs(count=1, patience=0))
limited = _make("unruly-limited", "all", limit="scarce")
