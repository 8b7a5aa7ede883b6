"""Writing a first workflow: a package of its own outside this repository, copied from `examples/first_workflow`.

The copy is made beside its place and moved there in one step, so that nothing half written is ever left.
"""

from __future__ import annotations

import importlib.util
import keyword
import re
import secrets
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from config.var import PROJECT

PATTERN = PROJECT / "examples" / "first_workflow"
FILES = (
    ".gitignore",
    "README.md",
    "counterfoil.toml",
    "pyproject.toml",
    "src/first_workflow/__init__.py",
    "src/first_workflow/py.typed",
    "src/first_workflow/workflow.py",
    "tests/test_workflow.py",
)
LONGEST_NAME = 40
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class CannotStart(Exception):
    """The package cannot be written; the message says why and what to do. Nothing was written."""


def write_package(name: str, into: Path, *, taken: Collection[str]) -> Path:
    """Write the package of a workflow of this name into a folder of its own below `into`, and say where it is.

    `taken`: names of workflows that are known here. Raises CannotStart.
    """
    _check_name(name, taken)
    into = into.expanduser().absolute()
    if not into.is_dir():
        raise CannotStart(f"There is no folder {into}. Make it first, or name another with --into.")
    if into.resolve().is_relative_to(PROJECT.resolve()):
        raise CannotStart("Your package belongs outside Counterfoil's own folder: give another with --into.")
    target = into / name
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise CannotStart(f"{target} is there already and is not an empty folder. Nothing was written.")
    beginning = into / f".{name}.{secrets.token_hex(4)}"
    try:
        try:
            _copy(name, beginning)
            beginning.rename(target)
        finally:
            shutil.rmtree(beginning, ignore_errors=True)
    except OSError as failed:
        raise CannotStart(
            f"{target} cannot be written: {failed.strerror}. Nothing is left of it."
        ) from failed
    return target


def package_of(name: str) -> str:
    """The Python package of a workflow's name."""
    return name.replace("-", "_")


def _check_name(name: str, taken: Collection[str]) -> None:
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise CannotStart(
            f"{name!r} is no name for a workflow: write lower case letters, digits and single hyphens, a letter"
            f" first, at most {LONGEST_NAME} characters, such as expense-claims."
        )
    if name in taken:
        raise CannotStart(f"There is a workflow {name} here already; take another name.")
    package = package_of(name)
    if keyword.iskeyword(package) or keyword.issoftkeyword(package):
        raise CannotStart(f"{package} is a word of Python's own; take another name.")
    if package in sys.stdlib_module_names or importlib.util.find_spec(package) is not None:
        raise CannotStart(f"{package} is a Python module here already; take another name.")


def _copy(name: str, folder: Path) -> None:
    words = {
        "first_workflow": package_of(name),
        "first-workflow": name,
        "First workflow": name.replace("-", " ").capitalize(),
    }
    for file in FILES:
        made = folder / file.replace("first_workflow", package_of(name))
        made.parent.mkdir(parents=True, exist_ok=True)
        text = (PATTERN / file).read_text("utf-8")
        for word, own in words.items():
            text = text.replace(word, own)
        made.write_text(text, "utf-8")
