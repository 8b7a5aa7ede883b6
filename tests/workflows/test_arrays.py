"""The committer's lists reach PostgreSQL as they are, whatever stands in them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from django.db import connection

from workflows.engine.arrays import ArrayDumper
from workflows.engine.connections import Connection, connect

pytestmark = pytest.mark.django_db(transaction=True)

AWKWARD = [
    "",
    "NULL",
    "null",
    '"',
    "\\",
    '\\"',
    "{a,b}",
    " a ",
    "a,b",
    "line\nbreak",
    "\ttab",
    "ü €",
    "\N{GRINNING FACE}",
    "'",
]
INDIA = timezone(timedelta(hours=5, minutes=30))


@pytest.fixture
def session() -> Any:
    with connect("arrays") as mine:
        yield mine


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("text", AWKWARD),
        ("text", [None, "NULL", None]),
        ("text", []),
        ("bigint", [0, -1, 2**63 - 1, None]),
        ("float8", [0.1, -1e300, float("inf"), None]),
        ("numeric", [Decimal("0.10"), Decimal("1E+3"), Decimal(-7), None]),
        ("boolean", [True, False, None]),
        (
            "timestamptz",
            [datetime(2026, 3, 29, 1, 59, 59, 999999, UTC), datetime(1999, 1, 1, tzinfo=INDIA), None],
        ),
    ],
)
def test_what_goes_in_as_a_list_comes_back_the_same(
    session: Connection, kind: str, values: list[Any]
) -> None:
    found = session.execute(f"SELECT %s::{kind}[]", [values]).fetchone()
    assert found == (values,)


def test_a_comparison_needs_no_cast(session: Connection) -> None:
    found = session.execute(
        "SELECT n FROM generate_series(1::bigint, 5) n WHERE n = ANY(%s) ORDER BY n", [[5, 2, 9]]
    )
    assert found.fetchall() == [(2,), (5,)]


def test_what_no_text_can_hold_is_refused_and_not_cut_off(session: Connection) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        session.execute("SELECT %s::text[]", [["before\0after"]])
    with pytest.raises(psycopg.ProgrammingError, match="no column takes a object"):
        session.execute("SELECT %s::text[]", [[object()]])
    with pytest.raises(UnicodeEncodeError):
        session.execute("SELECT %s::text[]", [["\ud800"]])


def test_only_the_engines_own_sessions_write_lists_so(session: Connection) -> None:
    theirs = psycopg.adapters.get_dumper(list, psycopg.adapt.PyFormat.TEXT)
    assert session.adapters.get_dumper(list, psycopg.adapt.PyFormat.TEXT) is ArrayDumper
    assert theirs is not ArrayDumper
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::text[]", [AWKWARD])
        assert cursor.fetchone() == (AWKWARD,)
