"""Letters, revision 1, changed without another revision: a field of its input and of a result, a setting, a step."""

from __future__ import annotations

import os

from pydantic import BaseModel

from tests.revisions.letters_1 import Bound, Names, Order, bind, propose, sort
from workflows.authoring import Ctx, Workflow


class Letter(BaseModel):
    name: str
    salutation: str
    text: str


class Stamps(BaseModel):
    count: int


compatible = os.environ.get("TEST_COMPATIBLE_WITH", "")
letters = Workflow(
    "test-letters",
    revision="1",
    input=Order,
    settings={"tone": "cold"},
    compatible_with=(compatible,) if compatible else (),
)
letters.step()(sort)


@letters.step(each=letters.steps[0].names)
def write(ctx: Ctx, name: str) -> Letter:
    return Letter(name=name, salutation="Dear", text="…")


@letters.step()
def stamp(ctx: Ctx, names: Names) -> Stamps:
    return Stamps(count=len(names.names))


@letters.step()
def bind_(ctx: Ctx, written: list[Letter]) -> Bound:
    return Bound(letters=len(written))


letters.propose(approval="test-letters")(propose)
__all__ = ["bind", "letters"]
