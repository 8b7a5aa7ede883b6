"""What every send runs is looked up by its key, also where few rows are open and many have been closed.

The small indexes of what is open look cheaper to the server than a key, and each send then walks past all that were closed
since the last vacuum, which an old snapshot, such as a dump's, puts off.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection

from access import prepared
from access.statements import Update
from access.tenancy import reading
from approvals import closing
from dispatch import marker, outcomes
from tests.support import make_tenant

pytestmark = pytest.mark.django_db


def closing_of(update: Update, **columns: Any) -> str:
    return update._made(*columns).statement


@pytest.mark.parametrize(
    ("statement", "small"),
    [
        (marker._MARK, "one_open_submission"),
        (closing_of(outcomes._CLOSE, closed_at=None), "one_open_submission"),
        (closing_of(closing._CLOSE, closed_at=None), "one_open_proposal_a_job"),
    ],
    ids=["mark", "close a submission", "close a proposal"],
)
def test_what_is_open_is_found_by_its_key(statement: str, small: str) -> None:
    tenant = make_tenant()
    text, _ = prepared._numbered(statement)
    with reading(tenant.pk), connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (GENERIC_PLAN) {text.decode()}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert small not in plan
    assert re.search(
        r"Index Scan using \w+_(pkey|tenant_key) on (dispatch_submission|approvals_proposal)", plan
    ), plan
