"""Wrong input is told in words that say what to do, and never in those of the library that found it."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, field_validator
from pytest_django import Settings

from tests.support import forget_workflows, install
from workflows import patterns, submissions
from workflows.titles import titles, workflow_title


class Line(BaseModel):
    amount: int = Field(ge=1, le=500)


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")
    reference: str = Field(pattern=r"^[A-Z0-9][A-Z0-9-]{2,39}$")
    note: Annotated[str, Field(min_length=1, max_length=5)]
    kind: Literal["new", "old"]
    due: date
    lines: list[Line] = Field(min_length=1)
    gift: bool = False

    @field_validator("note")
    @classmethod
    def _polite(cls, note: str) -> str:
        if note == "bah":
            raise ValueError("say it politely")
        return note


GOOD = {"reference": "PO-1", "note": "thx", "kind": "new", "due": "2026-03-31", "lines": [{"amount": 1}]}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            {"reference": "po 1"},
            "reference: has to be one capital letter or digit, then 2 to 39 capital letters, digits or hyphens",
        ),
        ({"reference": 7}, "reference: has to be text"),
        ({"note": ""}, "note: is empty; fill it in"),
        ({"note": "too long"}, "note: is too long; give at most 5 characters"),
        ({"note": "bah"}, "note: say it politely"),
        ({"kind": "odd"}, "kind: has to be 'new' or 'old'"),
        ({"due": "soon"}, "due: has to be a date, such as 2026-03-31"),
        ({"lines": []}, "lines: has too few entries; give at least 1"),
        ({"lines": [{}]}, "lines.0.amount: is missing; give it"),
        ({"lines": [{"amount": 0}]}, "lines.0.amount: has to be at least 1"),
        ({"lines": [{"amount": 501}]}, "lines.0.amount: has to be at most 500"),
        ({"lines": [{"amount": "many"}]}, "lines.0.amount: has to be a whole number"),
        ({"lines": ["one"]}, "lines.0: has to be an object with fields of its own"),
        ({"lines": "one"}, "lines: has to be a list"),
        ({"gift": "perhaps"}, "gift: has to be true or false"),
        ({"gifts": True}, "gifts: is not known here; leave it out"),
    ],
)
def test_what_is_wrong_with_a_field_is_told_with_what_it_has_to_be(
    given: dict[str, object], told: str
) -> None:
    assert submissions.misfits(Order, GOOD) == []
    (found,) = submissions.misfits(Order, {**GOOD, **given})
    assert f"{found.field}: {found.message}" == told


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"^([A-Z]{2})?$", "2 capital letters, or nothing"),
        (r"^[a-z][a-z0-9_]{0,59}$", "one small letter, then up to 59 small letters, digits or underscores"),
        (r"^\d{4}-\d{2}$", "4 digits, then one hyphen, then 2 digits"),
        (r"^[A-Za-z]+\.?$", "at least 1 letters, then one dot or none"),
        (r"^#[0-9a-f]{6}$", None),
        (r"^(a|b)$", None),
        (r"^(\d+)(\.\d+)?$", None),
        (r"[A-Z]+", None),
        (r"^[^x]+$", None),
        (r"^$", None),
    ],
)
def test_pattern_is_put_in_words_where_that_can_be_done(pattern: str, words: str | None) -> None:
    assert patterns.in_words(pattern) == words


def test_pattern_that_has_no_words_is_named_as_it_is() -> None:
    class Coded(BaseModel):
        code: str = Field(pattern="^(a|b)$")

    (found,) = submissions.misfits(Coded, json.loads('{"code": "c"}'))
    assert found.message == "is not of the form that is asked for: ^(a|b)$"


def test_a_workflow_is_called_by_its_title_or_by_its_name_in_words(settings: Settings) -> None:
    install(settings, "tests.workflows_for_tests")
    try:
        assert titles()["test-orders"] == workflow_title("test-orders") == "Orders for tests"
        assert workflow_title("gone-since_then") == "Gone since then"
    finally:
        forget_workflows()
