"""The page on concurrency: each row of its tables, and each story, has a test; its locks are the ones in the code."""

from __future__ import annotations

import ast
import re

import pytest

from tests.docs import scanning
from tests.docs.generated import ROOT

PAGE = (ROOT / "docs" / "concurrency.md").read_text("utf-8")
LINES = (ROOT / "tests" / "locks.md").read_text("utf-8")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
TABLES = ("Who takes what", "A crash on each line of a send")


def section(page: str, title: str) -> str:
    """What stands under a heading of the second level."""
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(text: str) -> dict[str, str]:
    """The first table of a text: its first column, with the rest of each row."""
    found = [line.strip("|").partition("|") for line in text.splitlines() if line.startswith("|")]
    return {first.strip(): rest for first, _, rest in found[2:]}


@pytest.mark.parametrize("title", TABLES)
def test_every_row_of_a_table_has_its_tests_and_no_other_has(title: str) -> None:
    proven = rows(section(LINES, title))
    assert list(proven) == list(rows(section(PAGE, title)))
    assert [who for who, tests in proven.items() if not TEST.findall(tests)] == []


def test_every_story_of_two_who_meet_has_its_tests_and_no_other_has() -> None:
    title = "Who waits for whom"
    told = re.findall(r"\*\*([^*]+?)\.?\*\*", section(PAGE, title))
    proven = rows(section(LINES, title))
    assert sorted(proven) == sorted(told)
    assert [who for who, tests in proven.items() if not TEST.findall(tests)] == []


def test_every_test_that_a_line_names_exists() -> None:
    named = set(TEST.findall(LINES))
    defined = {
        file: {
            n.name
            for n in ast.walk(ast.parse((ROOT / file).read_text("utf-8")))
            if isinstance(n, ast.FunctionDef)
        }
        for file, _ in named
    }
    assert sorted(f"{file}::{name}" for file, name in named if name not in defined[file]) == []


def test_rows_are_locked_through_the_orm_in_a_rooms_locks_alone() -> None:
    found = {p for p in scanning.sources(*scanning.ROOMS) if "select_for_update" in p.read_text("utf-8")}
    assert [str(p.relative_to(ROOT)) for p in found if p.name != "locks.py"] == []


def test_every_advisory_lock_stands_in_the_table() -> None:
    """By what is hashed: the words that begin it, or the kind that a name's lock is of."""
    table = section(PAGE, "Advisory locks")
    kinds, words = set(), set()
    for path in scanning.sources(*scanning.ROOMS):
        text = path.read_text("utf-8")
        kinds |= set(re.findall(r"\block_name\(\s*([^,()]+),", text))
        if "pg_advisory_xact_lock" in text:
            words |= set(re.findall(r"""['"](counterfoil:? [a-z]+(?: [a-z]+)*)""", text))
    assert len(kinds) > 5
    assert len(words) > 4
    named = {kind.strip('"') for kind in kinds} - {"KIND", "kind: str"} | {"callback"}
    assert sorted(kind for kind in named if f'"{kind}"' not in table) == []
    assert sorted(w for w in words if f'"{w}"' not in table and w != "counterfoil: is the engine up") == []
