"""The pages on writing and testing workflows: their blocks are run in order, and they name all that there is."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

import pytest

from counterfoil import testing
from counterfoil.testing import Fate, Run
from tests.docs.generated import ROOT
from workflows import authoring
from workflows.authoring import (
    Ctx,
    FieldChange,
    Needs,
    OperationDraft,
    ProposalDraft,
    Retry,
    SourceRecord,
    Workflow,
)
from workflows.models import StageKind


def run_blocks(name: str) -> dict[str, Any]:
    """What the blocks of a page define. An assertion in them that does not hold fails here."""
    text = (ROOT / "docs" / f"{name}.md").read_text("utf-8")
    names: dict[str, Any] = {"__name__": f"docs.{name}"}
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE))
    assert len(blocks) == text.count("```python")
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        code = compile("\n" * line + block.group(1), f"docs/{name}.md", "exec", dont_inherit=True)
        exec(code, names)
    return names


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    return run_blocks("authoring")


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


def test_the_page_of_the_test_kit_runs() -> None:
    assert isinstance(run_blocks("testing")["run"], Run)


def words_in(*pages: str) -> set[str]:
    """Every name in back ticks or code of these pages."""
    text = "\n".join((ROOT / "docs" / f"{page}.md").read_text("utf-8") for page in pages)
    return {
        word
        for code in re.findall(r"```.*?```|`[^`]+`", text, re.DOTALL)
        for word in re.findall(r"\w+", code)
    }


def test_everything_that_authors_can_import_is_on_a_page() -> None:
    assert sorted(set(authoring.__all__) - words_in("authoring", "waiting")) == []
    assert sorted(set(testing.__all__) - words_in("testing")) == []


@pytest.mark.parametrize(
    "kind", [Retry, Needs, Ctx, ProposalDraft, OperationDraft, FieldChange, SourceRecord, Workflow]
)
def test_every_field_of_what_authors_write_is_on_the_page(kind: Any) -> None:
    inner = {"steps", "validator", "rechecks", "source_versions", "compensations", "input", "reader"}
    fields = set(getattr(kind, "model_fields", None) or [f.name for f in dataclasses.fields(kind)])
    assert sorted(fields - inner - words_in("authoring", "waiting")) == []


def test_every_parameter_of_a_step_and_of_a_question_to_a_model_is_on_the_page() -> None:
    for function in (Workflow.step, Workflow.propose, Ctx.ask, Ctx.record):
        parameters = {p for p in inspect.signature(function).parameters if p != "self"}
        assert sorted(parameters - words_in("authoring", "waiting", "cost")) == []


def test_every_call_and_property_of_a_run_is_on_the_page_of_the_test_kit() -> None:
    public = {n for n in dir(Run) if not n.startswith("_")}
    assert sorted(public - words_in("testing")) == []
    assert (
        sorted({f.value for f in Fate} - set(re.findall(r"^\| `([a-z ]+)` \|", _text("testing"), re.M))) == []
    )


def _text(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text("utf-8")
