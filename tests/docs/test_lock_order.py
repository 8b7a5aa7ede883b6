"""The one order of locks, as it is taken: stories of other tests are run again, and each of their transactions is looked at."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection
from psycopg.pq import TransactionStatus

from tests.dispatch import test_flow, test_sending, test_settling
from tests.reconciliation import test_outcomes, test_reopening, test_steps
from tests.support import forget_workflows, install

pytestmark = pytest.mark.django_db(transaction=True)
PLACES = {
    "workflows_job": 0,
    "workflows_workitem": 1,
    "workflows_expectation": 2,
    "approvals_proposal": 3,
    "dispatch_operation": 4,
    "dispatch_submission": 5,
    "reconciliation_case": 6,
    "reconciliation_resolutionrequest": 7,
}
"""Where each table stands in the order of docs/concurrency.md."""
BY_HOOKS = {"reconciliation_case": {"dispatch_operation", "dispatch_submission"}}
"""What may come after although it stands before: a hook on an event may close a case before a hook on the state locks the
operations; whoever does so holds the job."""
LOCK = re.compile(r"FOR (?:NO KEY )?UPDATE(?: OF ([\w\", ]+?))?(?: SKIP LOCKED| NOWAIT)?\s*\)?\s*$")
LONG = (test_sending, test_settling, test_reopening)
STORIES = [
    pytest.param(
        story,
        id=f"{module.__name__.rpartition('.')[2]}::{name}",
        marks=[pytest.mark.long] if module in LONG else [],
    )
    for module in (test_flow, test_outcomes, test_steps, *LONG)
    for name, story in vars(module).items()
    if name.startswith("test_") and inspect.isfunction(story) and not inspect.signature(story).parameters
]
"""Those that need nothing but a database: this thread does all of it."""


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> Iterator[None]:
    install(settings, "tests.workflows_for_tests")
    yield
    forget_workflows()


@contextmanager
def watching() -> Iterator[list[list[str]]]:
    """The tables whose rows each transaction of this thread locks, in order."""
    seen: list[list[str]] = []

    def spy(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:
        session = context["connection"].connection
        if not seen or session.info.transaction_status == TransactionStatus.IDLE:
            seen.append([])
        seen[-1] += locked(str(sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(spy):
        yield seen


def locked(sql: str) -> list[str]:
    """The tables of which a statement locks rows. Whoever makes a job has it."""
    if sql.startswith('INSERT INTO "workflows_job"'):
        return ["workflows_job"]
    lock = LOCK.search(sql)
    if lock is None:
        return []
    named = lock.group(1) or (re.findall(r"\bFROM\s+\"?(\w+)", sql) or [""])[0]
    return [table.strip(' "') for table in named.split(",")]


@pytest.mark.parametrize("story", STORIES)
def test_no_transaction_locks_against_the_one_order(story: Callable[[], None]) -> None:
    with watching() as seen:
        story()
    assert [order for order in map(first_times, seen) if not is_allowed(order)] == []


def first_times(tables: list[str]) -> list[str]:
    return [table for table in dict.fromkeys(tables) if table in PLACES]


def is_allowed(order: list[str]) -> bool:
    """Whether the job is first where anything of it is locked, and each after those before it."""
    if order and order[0] != "workflows_job":
        return False
    return all(
        PLACES[before] < PLACES[after] or after in BY_HOOKS.get(before, ())
        for place, before in enumerate(order)
        for after in order[place + 1 :]
    )


def test_what_is_allowed_is_the_order_of_the_page() -> None:
    assert is_allowed(["workflows_job", "approvals_proposal", "dispatch_operation", "reconciliation_case"])
    assert is_allowed(["workflows_job", "reconciliation_case", "dispatch_operation"])
    assert not is_allowed(["dispatch_operation"])
    assert not is_allowed(["workflows_job", "dispatch_operation", "approvals_proposal"])
    assert locked('SELECT 1 FROM "a" INNER JOIN "b" ON true WHERE x FOR NO KEY UPDATE OF "a"') == ["a"]
    assert locked('SELECT 1 FROM "a" WHERE x ORDER BY 1 FOR UPDATE SKIP LOCKED') == ["a"]
    assert locked('UPDATE "a" SET x = 1') == []
