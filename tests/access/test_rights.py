"""What each role may do in the database, table by table: whoever gives one more has to say so here.

Columns that may be updated stand with the models of tenants' tables (`app_rights`, `engine_rights`).
"""

from __future__ import annotations

import os
from collections import defaultdict

import psycopg
import pytest
from django.db import DatabaseError, connection

from access.database_objects import APP, ENGINE, EXEMPT, JOURNAL
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)

OUTSIDE_OF_TENANTS = {
    ("access_installation", APP): "UPDATE",
    ("access_passwordentry", APP): "INSERT",
    ("access_person", APP): "INSERT UPDATE",
    ("access_tenant", APP): "INSERT UPDATE(known_until) UPDATE(name) UPDATE(restored_at)"
    " UPDATE(revoke_reason) UPDATE(revoked_at) UPDATE(shut_at) UPDATE(time_zone)",
    ("access_tenanthead", JOURNAL): "INSERT UPDATE",
    ("django_q_ormq", APP): "DELETE INSERT UPDATE",
    ("django_q_schedule", APP): "DELETE INSERT UPDATE",
    ("django_q_task", APP): "DELETE INSERT UPDATE",
    ("django_session", APP): "DELETE INSERT UPDATE",
    ("workflows_costbook", ENGINE): "INSERT UPDATE",
    ("workflows_knownrevision", APP): "INSERT UPDATE(described)",
    ("workflows_knownrevision", ENGINE): "INSERT UPDATE(described)",
    ("workflows_sharedlimit", APP): "DELETE INSERT UPDATE",
    ("workflows_sharedlimit", ENGINE): "UPDATE",
    ("workflows_worker", ENGINE): "INSERT UPDATE",
}
"""Beside SELECT."""
DELETED_FROM = {
    APP: {
        "approvals_lookagain", "outbox_message", "outbox_try", "reconciliation_bulk", "reconciliation_bulkentry",
        "reconciliation_savedview", "statements_repeatedrow", "statements_rowerror", "statements_statementline", "workflows_limit",
    },
    ENGINE: {"workflows_spendingreview", "workflows_storedfile"},
}  # fmt: skip
WRITTEN_BY_THE_ENGINE = {
    "outbox_message", "workflows_attempt", "workflows_checkpoint", "workflows_expectation", "workflows_iteminput",
    "workflows_job", "workflows_jobspending", "workflows_lane", "workflows_limit", "workflows_spending",
    "workflows_spendingreview", "workflows_stage", "workflows_storedfile", "workflows_workitem",
}  # fmt: skip
WRITTEN_BY_THE_JOURNAL = {"workflows_job"}
NOT_WRITTEN_BY_THE_APP = {
    # counted by the matches' own triggers
    "workflows_attempt",
    "workflows_jobspending",
    "workflows_spending",
}
_GRANTS = """
WITH given AS (
  SELECT oid AS relation, '' AS part, (aclexplode(relacl)).* FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind <> 'S'
  UNION ALL SELECT attrelid, '(' || attname || ')', (aclexplode(attacl)).* FROM pg_attribute
  JOIN pg_class c ON c.oid = attrelid AND c.relnamespace = 'public'::regnamespace WHERE attacl IS NOT NULL)
SELECT c.relname, coalesce(r.rolname, 'PUBLIC'), g.privilege_type || g.part
FROM given g JOIN pg_class c ON c.oid = g.relation LEFT JOIN pg_roles r ON r.oid = g.grantee
WHERE g.grantee <> c.relowner
"""
"""A function's right to run is another matter: `tests/access/test_row_level_security.py`."""


def granted() -> dict[tuple[str, str], set[str]]:
    """(table, role) → rights, those that the owner has by being the owner left out."""
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        for table, role, right in owner.execute(_GRANTS).fetchall():
            found[table, role].add(right)
    return found


def test_the_roles_have_exactly_the_rights_that_the_code_needs() -> None:
    rights = granted()
    assert {role for _, role in rights} == {APP, ENGINE, JOURNAL}
    beside = {
        key: " ".join(sorted(found - {"SELECT"})) for key, found in rights.items() if found - {"SELECT"}
    }
    # INSERT into some columns only says that the others are the database's to fill.
    written = {key: found for key, found in beside.items() if key[0] not in EXEMPT}
    assert {key: found for key, found in beside.items() if key[0] in EXEMPT} == OUTSIDE_OF_TENANTS
    by = {role: {table for table, who in written if who == role} for role in (APP, ENGINE, JOURNAL)}
    assert by[ENGINE] == WRITTEN_BY_THE_ENGINE
    assert by[JOURNAL] == WRITTEN_BY_THE_JOURNAL
    assert {table for table, who in rights if who == APP and table not in EXEMPT} - by[
        APP
    ] == NOT_WRITTEN_BY_THE_APP
    for role, tables in DELETED_FROM.items():
        assert {table for table, who in written if who == role and "DELETE" in rights[table, who]} == tables


def test_no_role_may_move_a_row_to_another_tenant_or_empty_a_table() -> None:
    every = {right for found in granted().values() for right in found}
    assert every.isdisjoint({"UPDATE(tenant_id)", "UPDATE(id)", "TRUNCATE", "TRIGGER", "REFERENCES"})
    whole = {key for key, found in granted().items() if "UPDATE" in found}
    assert {table for table, _ in whole} <= set(EXEMPT)


@pytest.mark.parametrize(
    "attempt",
    [
        "DELETE FROM access_tenant",
        "UPDATE access_tenant SET slug = 'another'",
        "DELETE FROM access_person",
        "DELETE FROM access_passwordentry",
        "UPDATE workflows_worker SET lease_until = now() + interval '1 year'",
        "INSERT INTO auth_permission (name, content_type_id, codename) VALUES ('x', 1, 'x')",
        "UPDATE workflows_costbook SET currency = 'EUR'",
    ],
)
def test_the_app_is_refused_what_it_never_does(attempt: str) -> None:
    make_person(make_tenant())
    with pytest.raises(DatabaseError, match="permission denied"), connection.cursor() as cursor:
        cursor.execute(attempt)
