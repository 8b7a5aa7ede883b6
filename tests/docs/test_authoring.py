"""The page on writing workflows: its blocks are run in order, as one module."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.docs.generated import ROOT
from workflows.authoring import Retry, Workflow
from workflows.models import StageKind


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """What the blocks define. An assertion in them that does not hold fails here."""
    text = (ROOT / "docs" / "authoring.md").read_text("utf-8")
    names: dict[str, Any] = {"__name__": "docs.authoring"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) == text.count("```python")
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block.group(1), "docs/authoring.md", "exec", dont_inherit=True)
        exec(code, names)
    return names


def test_the_example_is_a_workflow_that_a_job_could_pin(page: dict[str, Any]) -> None:
    refunds = page["refunds"]
    assert isinstance(refunds, Workflow)
    assert [(s.name, s.kind) for s in refunds.steps] == [
        ("sort", StageKind.STEP),
        ("assess", StageKind.EACH),
        ("propose", StageKind.PROPOSE),
    ]
    assert refunds.approval_policy == "refunds"
    assert len(refunds.configuration_digest()) == 64


def test_the_parameters_come_from_where_the_page_says(page: dict[str, Any]) -> None:
    _, assess, propose = page["refunds"].steps
    assert [(p.name, p.source) for p in assess.parameters] == [("order", "element"), ("request", "input")]
    assert [(p.name, p.source, p.step) for p in propose.parameters] == [
        ("request", "input", ""),
        ("due", "outputs", "assess"),
    ]


def test_the_default_retry_is_the_one_on_the_page() -> None:
    text = (ROOT / "docs" / "authoring.md").read_text("utf-8")
    default = Retry()
    told = f"Retry(attempts={default.attempts}, first_wait={default.first_wait}, longest_wait={default.longest_wait})"
    assert told in text
