"""Switching one rule off, in code and in the database, to see that a story which it refuses passes without it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg
import pytest

from approvals.standing import CheckResult

Switch = tuple[object, str, Any]
PASSES = CheckResult("switched off", True, "")


def no(*_: Any, **__: Any) -> None:
    """What a rule's function answers that is switched off."""


def passing(*_: Any, **__: Any) -> CheckResult:
    return PASSES


@contextmanager
def without_trigger(table: str, name: str) -> Iterator[None]:
    """The database's second wall taken down for a while; each test process has a database of its own."""
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute(f"ALTER TABLE {table} DISABLE TRIGGER {name}")
        try:
            yield
        finally:
            owner.execute(f"ALTER TABLE {table} ENABLE TRIGGER {name}")


@contextmanager
def switched_off(switches: tuple[Switch, ...], walls: tuple[tuple[str, str], ...] = ()) -> Iterator[None]:
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for place, name, instead in switches:
            patch.setattr(place, name, instead)
        for table, trigger in walls:
            stack.enter_context(without_trigger(table, trigger))
        yield
