"""What others may call says what it does, in the room that people write their own code against."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tests.docs import scanning
from tests.docs.generated import ROOT

DJANGOS = {"Meta", "Command", "WorkflowsConfig"}
"""What Django asks for under these names, with whatever is in it; a command's module says what it does."""


def test_everything_public_of_the_workflows_has_its_docstring() -> None:
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in scanning.sources("workflows")
        for name in undocumented(ast.parse(path.read_text("utf-8")), "")
    ]
    assert found == []


def undocumented(node: ast.Module | ast.ClassDef, inside: str) -> Iterator[str]:
    """Public classes, functions, methods and properties without one; signatures of a protocol aside."""
    for child in node.body:
        if not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            continue
        if child.name.startswith("_") or child.name in DJANGOS or _is_a_signature(child):
            continue
        if ast.get_docstring(child) is None:
            yield inside + child.name
        if isinstance(child, ast.ClassDef):
            yield from undocumented(child, f"{child.name}.")


def _is_a_signature(node: ast.FunctionDef | ast.ClassDef) -> bool:
    (first, *_) = node.body
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.value.value is ...
