"""From an input model to a form and back: what stands in a field becomes the value that the API would be sent."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpRequest
from django.test import RequestFactory
from pydantic import BaseModel, Field

from console.forms import form_of
from workflows import submissions
from workflows.authoring import Amount, Workflow


class Row(BaseModel):
    name: str


class Everything(BaseModel):
    document: str = Field(json_schema_extra={"widget": "file"})
    note: str | None = None
    limit: Amount | None = None
    count: int | None = None
    tags: list[str]
    rows: list[Row] = Field(default_factory=list)
    credit_limit: str = "none"


everything = Workflow("everything", revision="1", input=Everything)


def bound(files: dict[str, Any] | None = None, **fields: str) -> Any:
    request: HttpRequest = RequestFactory().post("/", {**fields, **(files or {})})
    return form_of(everything, request)


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        ({"document": " a\r\nb ", "tags": "x\ny"}, {"document": " a\nb ", "tags": ["x", "y"]}),
        ({"document": "d", "tags": ""}, {"document": "d", "tags": []}),
        (
            {"document": "d", "tags": "x", "note": "n", "limit": "12.50", "count": "-3"},
            {"document": "d", "tags": ["x"], "note": "n", "limit": "12.50", "count": -3},
        ),
        (
            {"document": "d", "tags": "x", "rows": '[{"name": "r"}]'},
            {"document": "d", "tags": ["x"], "rows": [{"name": "r"}]},
        ),
        ({"document": "d", "tags": "x", "count": "1e3"}, {"document": "d", "tags": ["x"], "count": "1e3"}),
    ],
)
def test_what_is_filled_in_becomes_the_value(fields: dict[str, str], value: dict[str, Any]) -> None:
    assert bound(**fields).value() == value


def test_a_file_takes_the_place_of_what_is_written() -> None:
    upload = SimpleUploadedFile("policy.txt", "Règle 1\r\nRègle 2".encode())
    form = bound({"document:file": upload}, document="written", tags="x")
    assert [form.value()["document"] for _ in range(2)] == ["Règle 1\r\nRègle 2"] * 2


def test_a_file_that_is_not_text_is_refused_at_its_field() -> None:
    form = bound({"document:file": SimpleUploadedFile("x.bin", b"\xff\xfe")}, tags="x")
    with pytest.raises(submissions.InvalidSubmission) as refused:
        submissions.check(everything, form.value())
    assert [p.field for p in refused.value.problems] == ["document"]


def test_a_problem_inside_a_list_is_told_at_its_field_with_its_line() -> None:
    form = bound(document="d", tags="x")
    form.full_clean()
    form.blame([submissions.Problem("tags.1", "is too long"), submissions.Problem("other", "is unknown")])
    assert form.errors["tags"] == ["Line 2: is too long"]
    assert form.non_field_errors() == ["other: is unknown"]


def test_labels_are_in_sentence_case_and_a_fresh_form_has_a_key_of_its_own() -> None:
    one, two = form_of(everything), form_of(everything)
    assert one["credit_limit"].label == "Credit limit"
    assert one["submission_key"].value() != two["submission_key"].value()
    assert one.is_multipart()


class Ledger(BaseModel):
    entries: int
    groups: str
    fields: str


def test_a_field_may_have_any_name_that_forms_have_for_their_own() -> None:
    ledger = Workflow("ledger", revision="1", input=Ledger)
    request: HttpRequest = RequestFactory().post("/", {"entries": "3", "groups": "a", "fields": "b"})
    form = form_of(ledger, request)
    assert [bound.name for _, all_bound in form.groups for bound in all_bound] == [
        "entries",
        "groups",
        "fields",
    ]
    assert form.is_valid(), form.errors
