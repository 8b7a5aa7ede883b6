"""What is part of a definition, what is not, and how a difference is told."""

from __future__ import annotations

import enum
import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from workflows.authoring import BadDefinition, Ctx, Needs, OperationDraft, ProposalDraft, Retry, Workflow
from workflows.authoring.differences import between


class Wish(BaseModel):
    """What somebody wishes."""

    text: str
    weight: int = 1


class Parts(BaseModel):
    parts: list[str]


class Part(BaseModel):
    text: str
    length: int


def definition(
    *,
    revision: str = "1",
    wish: type[BaseModel] = Wish,
    part: type[BaseModel] = Part,
    settings: dict[str, Any] | None = None,
    needs: Needs | str = "all",
    retry: Retry | None = None,
    limit: str = "",
    title: str = "",
    approval: str = "wishes",
    names: tuple[str, str] = ("split", "measure"),
    deadline: timedelta | None = None,
) -> Workflow:
    made = Workflow(
        "wishes", revision=revision, input=wish, settings=settings or {}, title=title, deadline=deadline
    )

    def split(ctx: Ctx, asked: wish) -> Parts:  # type: ignore[valid-type]
        return Parts(parts=[])

    def measure(ctx: Ctx, text: str) -> part:  # type: ignore[valid-type]
        return part()

    def propose(ctx: Ctx) -> ProposalDraft:
        return ProposalDraft(
            title="x", operations=(OperationDraft(receiver="r", action="a", record="1", title="t", body={}),)
        )

    for handler in (split, measure):
        handler.__annotations__ = {
            name: {"wish": wish, "part": part, "Parts": Parts, "Ctx": Ctx, "str": str}[hint]
            for name, hint in handler.__annotations__.items()
        }
    propose.__annotations__ = {"ctx": Ctx, "return": ProposalDraft}
    split.__name__, measure.__name__ = names
    first = made.step(title=title)(split)
    made.step(each=first.parts, needs=needs, retry=retry, limit=limit)(measure)
    made.propose(approval=approval)(propose)
    return made


class WordedWish(BaseModel):
    """Other words for the same shape."""

    weight: Annotated[int, Field(title="How heavy", description="In kilograms.", examples=[3])] = 1
    text: str


WordedWish.__name__ = "Wish"


@pytest.mark.parametrize(
    "same",
    [
        {"revision": "2"},
        {"title": "Another title"},
        {"retry": Retry(attempts=9, longest_wait=3)},
        {"limit": "model-a"},
        {"deadline": timedelta(hours=3)},
        {"wish": WordedWish},
    ],
    ids=["revision", "title", "retry", "limit", "deadline", "wording and order of fields"],
)
def test_how_work_is_worded_and_run_is_no_part_of_a_definition(same: dict[str, Any]) -> None:
    assert definition(**same).configuration_digest() == definition().configuration_digest()


class HeavyWish(BaseModel):
    text: str
    weight: int


class NumberedPart(BaseModel):
    text: int
    length: int
    number: int = 0


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"wish": HeavyWish}, ["the input: weight is required now", "the input: weight.default is gone (was 1)"]),
        (
            {"part": NumberedPart},
            [
                'step "measure": result.number is new',
                'step "measure": result.text.type was "string" and is "integer"',
            ],
        ),
        ({"settings": {"prompt": {"tone": "warm"}}}, ["the settings: prompt is new"]),
        ({"needs": Needs(share=0.8)}, ['step "measure": needs is new']),
        ({"approval": "others"}, ['the approval policy was "wishes" and is "others"']),
        (
            {"names": ("split", "weigh")},
            ['step "measure" is gone', 'step "weigh" is new'],
        ),
        (
            {"names": ("measure", "split")},
            [
                "the order of the steps was split, measure, propose and is measure, split, propose",
                'step "measure": each is gone (was "split.parts")',
                'step "measure": kind was "each" and is "step"',
                'step "measure": result.length is gone',
                'step "measure": result.parts is new',
                'step "measure": result.text is gone',
                "and 5 more",
            ],
        ),
    ],
    ids=["input", "result", "settings", "needs", "approval", "renamed", "order"],
)  # fmt: skip
def test_a_difference_names_the_step_and_the_field(changed: dict[str, Any], told: list[str]) -> None:
    before, after = definition(), definition(**changed)
    assert before.configuration_digest() != after.configuration_digest()
    assert between(before.described(), after.described()) == told


def test_a_setting_is_told_with_its_place() -> None:
    before = definition(settings={"models": [{"name": "a"}], "prompt": 3}).described()
    after = definition(settings={"models": [{"name": "b"}], "prompt": 4}).described()
    assert between(before, after) == [
        'the settings: models was [{"name": "a"}] and is [{"name": "b"}]',
        "the settings: prompt was 3 and is 4",
    ]


def test_nothing_is_told_where_nothing_is_known() -> None:
    assert between("", definition().described()) == []
    assert between(definition().described(), definition().described()) == []


class Tone(enum.Enum):
    WARM = "warm"


def test_settings_are_the_same_in_every_process() -> None:
    settings = {
        "tone": Tone.WARM,
        "models": frozenset({"c", "a", "b"}),
        "price": Decimal("0.10"),
        "since": date(2026, 3, 1),
        "patience": timedelta(minutes=2),
        "file": Path("prompts/first.txt"),
        "wish": Wish(text="x"),
        "share": 0.5,
        "none": None,
    }
    assert json.loads(definition(settings=settings).described())["settings"] == {
        "tone": "warm",
        "models": ["a", "b", "c"],
        "price": "0.10",
        "since": "2026-03-01",
        "patience": 120.0,
        "file": "prompts/first.txt",
        "wish": {"text": "x", "weight": 1},
        "share": 0.5,
        "none": None,
    }


@pytest.mark.parametrize(
    "setting", [object(), lambda: 1, float("nan"), {1: "x"}, b"bytes", [{"deep": {"client": object()}}]]
)
def test_a_setting_that_a_job_could_not_pin_is_refused(setting: object) -> None:
    with pytest.raises(
        BadDefinition, match=r"wishes: settings\.client(\.0\.deep\.client)? is a \w+, which a job"
    ):
        Workflow("wishes", revision="1", input=Wish, settings={"client": setting})


@pytest.mark.parametrize("digest", ["", "abc", "x" * 12, "A" * 12])
def test_compatible_with_holds_digests(digest: str) -> None:
    with pytest.raises(BadDefinition, match="compatible_with holds digests"):
        Workflow("wishes", revision="1", input=Wish, compatible_with=(digest,))
