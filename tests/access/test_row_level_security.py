"""Every table stands behind a policy, or is named in the list of exemptions with a reason."""

import pytest
from django.db import connection

from access.database_objects import EXEMPT, tenant_models
from access.models import Membership
from access.roles import Role
from access.tenancy import NoTenantScope, TenantForeignKey, acting, reading
from tests.support import make_person, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)


def test_every_table_has_a_policy_or_a_reason_not_to() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, c.relrowsecurity AND EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid)"
            " FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace"
        )
        tables = dict(cursor.fetchall())
    unguarded = {name for name, guarded in tables.items() if not guarded}
    assert unguarded == set(EXEMPT)
    assert all(len(reason) > 20 for reason in EXEMPT.values())


def test_every_reference_between_tenants_tables_is_held_by_a_key_or_a_trigger_that_is_named() -> None:
    by_statement = {
        ("statements_match", "line_id"), ("statements_match", "operation_id"),
        ("statements_statementline", "receiver_id"), ("statements_statementline", "statement_id"),
    }  # fmt: skip
    fields = {
        (model._meta.db_table, field.column): field.by_statement
        for model in tenant_models()
        for field in model._meta.concrete_fields
        if isinstance(field, TenantForeignKey)
    }
    assert {at for at, is_so in fields.items() if is_so} == by_statement
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.conrelid::regclass::text, a.attname FROM pg_constraint c JOIN pg_attribute a"
            " ON a.attrelid = c.conrelid AND a.attnum = c.conkey[2]"
            " WHERE c.contype = 'f' AND cardinality(c.conkey) = 2"
        )
        held = set(cursor.fetchall())
    assert held >= fields.keys() - by_statement
    assert not held & by_statement


def test_the_app_role_is_no_superuser_and_cannot_bypass() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname IN (current_user, session_user)"
        )
        assert {row[1:] for row in cursor.fetchall()} == {(False, False)}
        cursor.execute("SELECT current_user")
        assert cursor.fetchone() == ("counterfoil_app",)


def test_a_query_without_a_tenant_finds_nothing_and_raises_in_python() -> None:
    tenant = make_tenant()
    make_person(tenant, Role.MANAGER)
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM access_membership")
        assert cursor.fetchone() == (0,)
    for ask in (
        lambda: list(Membership.objects.all()),
        Membership.objects.count,
        Membership.objects.exists,
        lambda: Membership.objects.update(ended_at=None),
        lambda: Membership.objects.filter(pk=1).delete(),
    ):
        with pytest.raises(NoTenantScope):
            ask()


def test_one_tenant_does_not_see_another_and_nesting_restores_the_outer_scope() -> None:
    ours, theirs = make_tenant(), make_tenant()
    make_person(ours, Role.MANAGER)
    make_person(theirs, Role.MANAGER, Role.AUDITOR)
    with reading(ours.pk):
        assert Membership.objects.count() == 1
        with reading(theirs.pk):
            assert Membership.objects.count() == 2
        assert Membership.objects.count() == 1


def test_a_row_of_another_tenant_cannot_be_written() -> None:
    ours, theirs = make_tenant(), make_tenant()
    person = make_person(ours, Role.MANAGER)
    with pytest.raises(Exception, match="row-level security"), acting(ours.pk):
        Membership.objects.create(tenant=theirs, person=person, role=Role.ADMIN)
    with reading(theirs.pk):
        assert Membership.objects.count() == 0


def test_reading_cannot_write() -> None:
    tenant = make_tenant()
    person = make_person(tenant)
    with pytest.raises(Exception, match="read-only transaction"), reading(tenant.pk):
        Membership.objects.create(tenant=tenant, person=person, role=Role.ADMIN)
