"""What the source says, for comparing with what the documents say: journal events and environment variables."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs.generated import ROOT

ROOMS = (
    "access",
    "web",
    "outbox",
    "workflows",
    "approvals",
    "dispatch",
    "statements",
    "reconciliation",
    "api",
    "console",
)
EVENT = re.compile(r"[a-z]+\.[a-z_]+")
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]+")


def sources(*folders: str) -> Iterator[Path]:
    """Python files of ours, migrations left out."""
    for folder in folders:
        yield from (p for p in sorted((ROOT / folder).rglob("*.py")) if "migrations" not in p.parts)


@cache
def journal_events() -> dict[str, str]:
    """Every event that the code can write, with a file that does."""
    found: dict[str, str] = {}
    for path in sources(*ROOMS, "examples/management"):
        for event in _events_in(ast.parse(path.read_text("utf-8"))):
            found.setdefault(event, str(path.relative_to(ROOT)))
    return found


def variables() -> dict[str, str]:
    """Every environment variable that the product reads, with a file that does."""
    found: dict[str, str] = {}
    for path in [ROOT / "manage.py", *sources("config", *ROOMS, "examples")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for name in _variables_read(node):
                found.setdefault(name, str(path.relative_to(ROOT)))
    return found


def _events_in(tree: ast.Module) -> Iterator[str]:
    """Strings that become an event: by keyword, by position, by a name that ends in "event", by a default."""
    positions = dict(_positions(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from (e for k in node.keywords if k.arg == "event" for e in _strings(k.value))
            place = positions.get(_name(node.func))
            if place is not None and place < len(node.args):
                yield from _strings(node.args[place])
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if node.value is not None and any(_name(t).lower().endswith("event") for t in targets):
                yield from _strings(node.value)
        elif isinstance(node, ast.FunctionDef):
            defaults = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            yield from (e for a, d in defaults if a.arg == "event" and d is not None for e in _strings(d))


def _positions(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Functions and dataclasses of the module that take an event, and in which place."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            names = [a.arg for a in node.args.args]
        elif isinstance(node, ast.ClassDef):
            names = [_name(n.target) for n in node.body if isinstance(n, ast.AnnAssign)]
        else:
            continue
        if "event" in names:
            yield node.name, names.index("event")


def _strings(node: ast.expr) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str) and EVENT.fullmatch(inner.value):
            yield inner.value


def _variables_read(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and _reads_environment(node.func):
        argument = node.args[0] if node.args else None
    elif isinstance(node, ast.Subscript) and _name(node.value) == "environ":
        argument = node.slice
    else:
        return
    if isinstance(argument, ast.Constant) and VARIABLE.fullmatch(str(argument.value)):
        yield str(argument.value)


def _reads_environment(function: ast.expr) -> bool:
    """`os.environ.get(…)` and its like, `os.getenv(…)`, and the settings' own `_flag(…)`."""
    on_environ = isinstance(function, ast.Attribute) and _name(function.value) == "environ"
    return on_environ or _name(function) in {"getenv", "_flag"}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
