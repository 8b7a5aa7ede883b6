"""`manage.py startworkflow`: what it writes is whole and good, and what it refuses leaves nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from config.var import PROJECT
from examples.management.starting import FILES, PATTERN
from tests.journeys.environments import Environment

CACHES = {"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}


def start(name: str, into: Path) -> str:
    told = StringIO()
    call_command("startworkflow", name, "--into", str(into), stdout=told)
    return told.getvalue()


def everything_below(folder: Path) -> set[str]:
    files = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return {str(p) for p in files if not CACHES & set(p.parts) and ".egg-info" not in str(p)}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment.make(tmp_path_factory.mktemp("environment") / "env")


def test_every_file_of_the_pattern_is_written() -> None:
    assert everything_below(PATTERN) == set(FILES)


def test_the_package_bears_its_own_name_everywhere(tmp_path: Path) -> None:
    told = start("expense-claims", tmp_path)
    package = tmp_path / "expense-claims"

    assert everything_below(package) == {f.replace("first_workflow", "expense_claims") for f in FILES}
    texts = "\n".join((package / f).read_text() for f in everything_below(package)).lower()
    assert "first_workflow" not in texts
    assert "first-workflow" not in texts
    assert "first workflow" not in texts
    assert str(PROJECT) not in texts, "the package is not of one machine"
    assert f"cd {package}" in told
    assert [p.name for p in tmp_path.iterdir()] == ["expense-claims"]


def test_an_empty_folder_of_that_name_is_filled(tmp_path: Path) -> None:
    (tmp_path / "expense-claims").mkdir()
    start("expense-claims", tmp_path)
    assert (tmp_path / "expense-claims" / "pyproject.toml").exists()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("Expenses", "is no name for a workflow"),
        ("expense_claims", "is no name for a workflow"),
        ("claims-", "is no name for a workflow"),
        ("two--claims", "is no name for a workflow"),
        ("2nd-claims", "is no name for a workflow"),
        ("../claims", "is no name for a workflow"),
        ("", "is no name for a workflow"),
        ("c" * 41, "at most 40 characters"),
        ("import", "import is a word of Python's own"),
        ("match", "match is a word of Python's own"),
        ("json", "json is a Python module here already"),
        ("pydantic", "pydantic is a Python module here already"),
        ("workflows", "workflows is a Python module here already"),
        ("vendor-onboarding", "There is a workflow vendor-onboarding here already"),
    ],
)
def test_a_name_that_will_not_do_is_refused_and_nothing_is_written(
    tmp_path: Path, name: str, why: str
) -> None:
    with pytest.raises(CommandError) as refused:
        start(name, tmp_path)
    assert why in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_empty_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "mine.txt").write_text("mine")
    with pytest.raises(CommandError, match="is not an empty folder"):
        start("claims", tmp_path)
    assert everything_below(tmp_path) == {"claims/mine.txt"}


def test_a_file_or_a_link_of_that_name_is_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "claims").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "linked").symlink_to(tmp_path / "elsewhere")
    for name in ("claims", "linked"):
        with pytest.raises(CommandError, match="is there already"):
            start(name, tmp_path)
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize(
    ("into", "why"),
    [
        (Path("/nowhere/at/all"), "There is no folder /nowhere/at/all. Make it first"),
        (PROJECT, "belongs outside Counterfoil's own folder"),
        (PROJECT / "docs", "belongs outside Counterfoil's own folder"),
        (Path("/proc"), "/proc/claims cannot be written"),
    ],
)
def test_a_place_that_will_not_do_is_refused(into: Path, why: str) -> None:
    with pytest.raises(CommandError) as refused:
        start("claims", into)
    assert why in str(refused.value)
    assert not (PROJECT / "claims").exists()
    assert not (PROJECT / "docs" / "claims").exists()


@pytest.mark.processes
@pytest.mark.parametrize("name", ["q", "a-name-that-is-as-long-as-a-name-can-be4"])
def test_what_is_written_is_formatted_and_linted_whatever_it_is_called(
    tmp_path: Path, environment: Environment, name: str
) -> None:
    start(name, tmp_path)
    environment.run("-m", "ruff", "check", "--no-cache", ".", cwd=tmp_path / name)
    environment.run("-m", "ruff", "format", "--check", "--no-cache", ".", cwd=tmp_path / name)


@pytest.mark.processes
def test_what_is_written_passes_its_own_tests_and_is_found_once_it_is_installed(
    tmp_path: Path, environment: Environment
) -> None:
    start("expense-claims", tmp_path)
    package = tmp_path / "expense-claims"
    assert "6 passed" in environment.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=package)

    environment.install(package)
    again = ("manage.py", "startworkflow", "expense-claims", "--into", str(tmp_path))
    told = environment.run(*again, cwd=PROJECT, fails=True)
    assert "There is a workflow expense-claims here already" in told


@pytest.mark.long
@pytest.mark.processes
def test_a_package_that_breaks_is_named_at_every_start_with_its_file_and_line(
    tmp_path: Path, environment: Environment
) -> None:
    start("broken-claims", tmp_path)
    environment.install(tmp_path / "broken-claims")
    module = tmp_path / "broken-claims" / "src" / "broken_claims" / "workflow.py"
    module.write_text("import nowhere_to_be_found\n" + module.read_text())
    told = environment.run("manage.py", "check", cwd=PROJECT)
    assert "counterfoil.W001) The package broken-claims 0.1.0 (broken_claims.workflow)" in told
    assert f"ModuleNotFoundError at {module}, line 1: No module named 'nowhere_to_be_found'" in told
    environment.run("manage.py", "check", "--fail-level", "WARNING", cwd=PROJECT, fails=True)


@pytest.mark.long
@pytest.mark.processes
def test_what_is_written_is_checked_strictly_against_our_types(
    tmp_path: Path, environment: Environment
) -> None:
    start("typed-claims", tmp_path)
    package = tmp_path / "typed-claims"
    assert "Success" in environment.run("-m", "mypy", cwd=package)

    module = package / "src" / "typed_claims" / "workflow.py"
    wrong = {"answer.kind,": "answer.sort,", "attempts=3": "attempts='3'", "request.lines]": "request.line]"}
    text = module.read_text()
    for right, instead in wrong.items():
        assert right in text
        text = text.replace(right, instead)
    module.write_text(text)
    told = environment.run("-m", "mypy", cwd=package, fails=True)
    assert '"Answer" has no attribute "sort"' in told
    assert 'Argument "attempts" to "Retry" has incompatible type "str"; expected "int"' in told
    assert '"Request" has no attribute "line"' in told
