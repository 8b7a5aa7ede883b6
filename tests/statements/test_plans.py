"""A session keeps a plan that it may have made while a table was empty: it must be one that also holds for a million rows."""

from __future__ import annotations

import re

import pytest
from django.db import connection

from access import prepared
from statements.writing import BY_INDEX, KEPT
from tests.statements.shelf import Shelf

pytestmark = pytest.mark.django_db


def test_known_lines_are_looked_up_by_their_marks_in_a_table_that_was_empty(shelf: Shelf) -> None:
    """Beside it stands an index of the account's lines by amount: over that one, every mark is compared with every line."""
    text, _ = prepared._numbered(KEPT)
    with connection.cursor() as cursor:
        cursor.execute(BY_INDEX)
        cursor.execute(f"EXPLAIN (GENERIC_PLAN) {text.decode()}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert re.search(
        r"Index Scan using one_line_a_fingerprint.*\n.*Index Cond: .*fingerprint = m\.mark", plan
    ), plan
