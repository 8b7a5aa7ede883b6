"""A workflow whose one step fails in the way its input says, for what is kept of an attempt that failed."""

from __future__ import annotations

import logging
import os

from pydantic import BaseModel

from workflows.authoring import Ctx, OperationDraft, Permanent, ProposalDraft, Retry, Workflow

log = logging.getLogger(__name__)


class Wish(BaseModel):
    """`how`: which way it fails."""

    how: str


class Amount(BaseModel):
    """What a model is asked for."""

    amount: int


failing = Workflow("test-failing", revision="1", input=Wish, title="Failing")

ANSWERS = {
    "cut": '{"amount": 1',
    "other": '{"sum": 12}',
    "words": '{"amount": "about 50"}',
    "good": '{"amount": 50}',
}


class Mute(Exception):
    """An error that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@failing.step(retry=Retry(attempts=3, first_wait=0.01, longest_wait=0.02))
def ask(ctx: Ctx, wish: Wish) -> Amount:
    if wish.how in ANSWERS:
        said = ANSWERS["good"] if wish.how == "cut" and ctx.attempt == 3 else ANSWERS[wish.how]
        ctx.record(route="test-model", tokens_in=100, tokens_out=5, answer=said)
        return Amount.model_validate_json(said)
    if wish.how == "long":
        ctx.record(route="test-model", tokens_in=1, answer="x" * 50_000)
        raise Permanent("long")
    if wish.how == "logs":
        log.warning("calling with %s and Authorization: Bearer %s", os.environ["TEST_API_KEY"], "q" * 20)
    if wish.how == "deep":
        _deeper(wish)
    if wish.how == "mute":
        raise Mute
    if wish.how == "caused":
        try:
            _inner(os.environ["TEST_API_KEY"])
        except ValueError as error:
            raise Permanent("the outer sentence") from error
    raise Permanent(f"refused: GET https://me:{os.environ['TEST_API_KEY']}@api.example/x?key=1")


def _inner(value: str) -> None:
    raise ValueError(f"inner {value}")


def _deeper(wish: Wish) -> Amount:
    return _deeper(wish)


@failing.propose(approval="none")
def propose(ctx: Ctx, amount: Amount) -> ProposalDraft:
    operation = OperationDraft(
        receiver="none", action="put", record="R-1", title="Put it", body={"a": amount.amount}
    )
    return ProposalDraft(title="Put it", operations=(operation,))
