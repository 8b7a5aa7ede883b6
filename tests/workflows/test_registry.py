"""Workflows from people's own packages: found, told apart, and none of them able to take the others down."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import SystemCheckError

from tests.workflows.packages import install, source
from workflows import registry

HERE = ("test-order", "1")
"""The workflow that the setting names in this folder's tests."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder on the path, as an environment's site-packages is; its modules are forgotten again."""
    known = set(sys.modules)
    sys.path.append(str(tmp_path))
    yield tmp_path
    sys.path.remove(str(tmp_path))
    for name in set(sys.modules) - known:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def told() -> list[str]:
    return [str(u) for u in registry.workflows().unusable]


def test_a_package_is_found_by_its_entry_point(folder: Path) -> None:
    install(folder, "wishes", source("wishes"))
    assert list(registry.workflows()) == [HERE, ("wishes", "1")]
    assert registry.current("wishes").title == "Wishes"
    assert told() == []


def test_an_entry_point_may_name_one_workflow_of_a_module(folder: Path) -> None:
    install(folder, "wishes", source("wishes") + source("hopes"), entry="wishes:hopes")
    assert list(registry.workflows()) == [HERE, ("hopes", "1")]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import nowhere_to_be_found", "ModuleNotFoundError at {file}, line 1: No module named 'nowhere_to_be_found'."),
        ("x = 1\nx.y = 2", "AttributeError at {file}, line 2: 'int' object has no attribute 'y'."),
        ("def broken(:", "SyntaxError: invalid syntax (wishes.py, line 1)."),
        ("raise SystemExit(3)", "SystemExit at {file}, line 1: 3."),
        ("x = 1", "it defines no workflow."),
        (
            "from pydantic import BaseModel\nfrom workflows.authoring import Workflow\n"
            "w = Workflow('wishes', revision='1', input=BaseModel)",
            "wishes revision 1 has no propose, so its jobs would never end.",
        ),
        (
            "from pydantic import BaseModel\nfrom workflows.authoring import Workflow\n"
            "w = Workflow('Wishes', revision='1', input=BaseModel)",
            "BadDefinition at ",
        ),
    ],
    ids=["import", "attribute", "syntax", "exit", "empty", "no-propose", "definition"],
)  # fmt: skip
def test_a_broken_package_is_told_with_its_place_and_takes_no_other_down(
    folder: Path, text: str, why: str
) -> None:
    install(folder, "wishes", text)
    install(folder, "zebras", source("zebras"))
    assert list(registry.workflows()) == [HERE, ("zebras", "1")]
    (only,) = told()
    assert only.startswith(
        "The package wishes 1.2 (wishes): " + why.format(file=folder / "wishes.py").rstrip(".")
    )


def test_a_broken_package_is_logged_with_its_traceback(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    install(folder, "wishes", "raise ValueError('no key set')")
    with caplog.at_level(logging.ERROR):
        registry.workflows()
    (record,) = [r for r in caplog.records if r.name == "workflows.registry"]
    assert record.getMessage() == "The package wishes 1.2 (wishes) cannot be loaded"
    assert record.exc_info is not None


def test_a_module_of_the_setting_that_is_missing_is_told_by_its_name(settings: Any) -> None:
    settings.COUNTERFOIL_WORKFLOWS = ["not_there.at_all", "tests.workflows.definitions"]
    assert list(registry.workflows()) == [HERE]
    assert told() == [
        "The module not_there.at_all (COUNTERFOIL_WORKFLOWS): "
        "ModuleNotFoundError: No module named 'not_there'."
    ]


def test_an_entry_point_that_is_neither_module_nor_workflow_is_told(folder: Path) -> None:
    install(folder, "wishes", "wishes = 12", entry="wishes:wishes")
    assert told() == [
        "The package wishes 1.2 (wishes:wishes): TypeError: a module or a Workflow is meant, and this is of type int."
    ]


def test_two_packages_with_the_same_workflow_and_revision_are_refused_at_every_start(folder: Path) -> None:
    install(folder, "beta", source("wishes", title="From beta"))
    install(folder, "alpha", source("wishes", title="From alpha"))
    sentence = (
        r"\(counterfoil\.E005\) The package beta 1\.2 \(beta\): it defines wishes revision 1, which is defined by"
        r" the package alpha 1\.2 \(alpha\)\. Give one of the two another revision\."
    )
    with pytest.raises(SystemCheckError, match=sentence):
        call_command("check")
    assert registry.current("wishes").title == "From alpha"
    assert told() == []


def test_one_module_with_two_definitions_of_a_revision_is_refused_at_every_start(folder: Path) -> None:
    install(folder, "alpha", f"{source('wishes')}\nfirst = wishes\n{source('wishes')}")
    with pytest.raises(SystemCheckError, match="it defines wishes revision 1, which is defined earlier"):
        call_command("check")


def test_of_several_revisions_exactly_one_must_say_that_new_jobs_take_it(folder: Path) -> None:
    install(folder, "alpha", source("wishes", revision="9"))
    install(folder, "beta", source("wishes", revision="10"))
    with pytest.raises(
        SystemCheckError, match=r"E006\) wishes: revisions 9 and 10 are loaded, and none says"
    ):
        call_command("check")
    with pytest.raises(registry.NoCurrentRevision):
        registry.current("wishes")


def test_a_workflow_that_two_modules_share_is_one_workflow(folder: Path) -> None:
    install(folder, "alpha", source("wishes"))
    install(folder, "beta", "from alpha import wishes" + source("hopes"))
    assert sorted(registry.workflows()) == [("hopes", "1"), HERE, ("wishes", "1")]
    assert told() == []


def test_asking_for_a_workflow_of_a_broken_package_says_that_some_could_not_be_loaded(folder: Path) -> None:
    install(folder, "wishes", "import nowhere_to_be_found")
    with pytest.raises(registry.NoSuchWorkflow, match=r"Installed: test-order\. Some packages of workflows"):
        registry.current("wishes")
    with pytest.raises(
        registry.RevisionMissing, match=r"Not loaded: The package wishes 1\.2 \(wishes\): Mod"
    ):
        registry.pinned("wishes", "1", "0" * 64)


def test_the_check_at_every_start_warns_and_does_not_stop(folder: Path) -> None:
    install(folder, "wishes", "import nowhere_to_be_found")
    said = StringIO()
    call_command("check", stderr=said)
    assert "(counterfoil.W001) The package wishes 1.2 (wishes): ModuleNotFoundError at" in said.getvalue()
