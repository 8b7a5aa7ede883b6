"""Every case and every rule that bites has its line, and every test that a line names exists."""

from __future__ import annotations

import ast
import re

from tests.approvals.test_rules_bite import RULES, WALLS
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
    "G1",
    "G2",
    "G3",
    "G4",
    "G6",
    "G7",
    "G8",
    "G10",
    "G12",
    "G13",
    "G15",
    "H1",
    "H2",
    "H4",
    "H5",
    "H7",
    "H9",
    "H11",
    "H12",
    "I1",
    "I2",
    "I3",
    "I5",
    "I7",
    "J1",
    "J2",
    "J3",
    "J7",
    "J8",
    "J10",
    "J11",
    "J13",
    "J15",
    "J17",
    "K1",
    "K2",
    "K5",
    "K7",
    "L1",
    "L3",
    "L4",
    "Q2",
]
RULES_MD = (ROOT / "tests" / "rules.md").read_text("utf-8")
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
    named = {*TEST.findall(RULES_MD), *(test for tests in lines().values() for test in tests)}
    defined = {
        file: {
            n.name
            for n in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
            if isinstance(n, ast.FunctionDef)
        }
        for file, _ in named
    }
    assert sorted(f"{file}::{name}" for file, name in named if name not in defined[file]) == []


def test_every_rule_that_bites_has_its_line() -> None:
    assert {*re.findall(r'`RULES\["(.+?)"\]`', RULES_MD)} == {*RULES}
    assert {*re.findall(r'`WALLS\["(.+?)"\]`', RULES_MD)} == {*WALLS}
