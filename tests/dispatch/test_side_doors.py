"""Every way to a send goes past the same guard: who may call what leads to one, kept as a list.

A test fails here when a new caller appears. Whoever adds one says in the list why what it sends was approved.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.docs.generated import ROOT
from tests.docs.scanning import ROOMS

CALLERS = {
    # The bytes go out here and nowhere else.
    "dispatch.wire.exchange": {
        "dispatch.connectors.http",  # a send that `send_through` was asked for; a GET, which changes nothing
        "dispatch.tokens",  # asks an issuer for a token, which changes nothing at the receiver
    },
    "dispatch.connectors.calling.send_through": {
        "dispatch.sending",  # after `open_submission` or `open_locked` has looked at everything again
        "dispatch.checking.probing",  # an admin's check, to what its contract calls a sandbox
    },
    # The row that says that something is being sent, and with it every check before a send.
    "dispatch.models.Submission": {"dispatch.opening"},
    "dispatch.opening.open_submission": {"dispatch.sending"},
    "dispatch.opening.open_locked": {"dispatch.sending"},
    # A decision: the page, the API and bulk.
    "approvals.actions.decide.record_decision": {
        "approvals.views",
        "api.proposals",
        "approvals.actions.bulk",
        "examples.demos.installation",  # the sample's people, by their own names
        "examples.management.playing",
    },
    "approvals.models.Decision": {"approvals.actions.decide"},
    "approvals.standing.mark_sent": {
        "dispatch.opening",
        "dispatch.quarantining",  # sends nothing: it may have been sent after the backup
    },
}


def test_nothing_new_leads_to_a_send_or_to_a_decision() -> None:
    assert callers() == CALLERS


def callers() -> dict[str, set[str]]:
    """Who calls each of them, over all modules of the rooms. Of models: who makes rows."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for name in called(ast.parse(path.read_text("utf-8"))):
            for target in CALLERS:
                home, _, last = target.rpartition(".")
                if name == last and module != home:
                    found[target].add(module)
    return dict(found)


def modules() -> Iterator[Path]:
    for room in (*ROOMS, "config", "examples"):
        yield from (p for p in (ROOT / room).rglob("*.py") if not {"migrations", "models"} & set(p.parts))


def called(tree: ast.AST) -> Iterator[str]:
    """The last name of everything that is called or passed on: `exchange(…)`, `wire.exchange(…)`, `Decision.objects.create`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from _names(node.func)
            for argument in (*node.args, *(k.value for k in node.keywords)):
                if isinstance(argument, ast.Name):
                    yield argument.id


def _names(function: ast.expr) -> Iterator[str]:
    if isinstance(function, ast.Name):
        yield function.id
    elif isinstance(function, ast.Attribute):
        if function.attr in ("create", "bulk_create", "get_or_create", "update_or_create"):
            yield from _manager_of(function.value)
        else:
            yield function.attr


def _manager_of(value: ast.expr) -> Iterator[str]:
    if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name):
        yield value.value.id
