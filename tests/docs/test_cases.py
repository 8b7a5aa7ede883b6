"""Every case has its line, and every test that a line names exists."""

from __future__ import annotations

import ast
import re

from tests.docs.generated import ROOT

CASES = [
    "A1",
    "A2",
    "A3",
    "A4",
    "A5",
    "A6",
    "A7",
    "A9",
    "A10",
    "A12",
    "A14",
    "B1",
    "B2",
    "B3",
    "B5",
    "B6",
    "B7",
    "B9",
    "B10",
    "B11",
    "B12",
    "C1",
    "C2",
    "C5",
    "C7",
    "D1",
    "D2",
    "D3",
    "E1",
    "E2",
    "E3",
    "E5",
    "E6",
    "E7",
    "E9",
    "F1",
    "F2",
    "F3",
    "F4",
    "F6",
    "F7",
    "F8",
    "F9",
    "F10",
    "F11",
    "F13",
    "F14",
    "F16",
    "F18",
    "G10",
    "Q2",
]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def lines() -> dict[str, list[tuple[str, str]]]:
    """The tests that each case's line names."""
    rows = re.findall(
        r"^\| ([A-Z]\d+) \|(.*)$", (ROOT / "tests" / "cases.md").read_text("utf-8"), re.MULTILINE
    )
    return {case: TEST.findall(rest) for case, rest in rows}


def test_every_case_has_its_line_with_a_test() -> None:
    found = lines()
    assert list(found) == CASES
    assert [case for case, tests in found.items() if not tests] == []


def test_every_test_that_a_line_names_exists() -> None:
    defined = {
        file: {
            n.name
            for n in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
            if isinstance(n, ast.FunctionDef)
        }
        for tests in lines().values()
        for file, _ in tests
    }
    missing = [
        f"{file}::{name}" for tests in lines().values() for file, name in tests if name not in defined[file]
    ]
    assert missing == []
