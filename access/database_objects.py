"""What Django's migrations do not write: roles, functions, triggers, policies, grants.

`migrate` applies all of it after the migrations, in one transaction, when the text has changed since the last time
(its digest is kept in `access_database_objects`), or the tables were put back from a dump. Every statement can be repeated. Rooms register their own SQL in
their AppConfig.ready(); the policies and grants of tenants' tables follow from the models themselves.
"""

# ruff: noqa: S608 - the statements are made of names from this code, never of input
from __future__ import annotations

import hashlib
from collections.abc import Callable

from django.apps import apps
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.utils import CursorWrapper

from access.tenancy import Rights, TenantForeignKey, TenantModel

APP, ENGINE, JOURNAL = "counterfoil_app", "counterfoil_engine", "counterfoil_journal"

EXEMPT: dict[str, str] = {
    "access_person": "people sign in before a tenant is known, and may belong to several",
    "access_person_groups": "Django's own; unused, roles are memberships",
    "access_person_user_permissions": "Django's own; unused, roles are memberships",
    "access_passwordentry": "a person re-enters a password for a session, not for a tenant; digests and times only",
    "access_tenant": "the list of tenants itself, which a scope is chosen from; it holds no content",
    "access_tenanthead": "version and hash of a tenant's journal; the app's role cannot read or write it",
    "access_database_objects": "the digest of this file's statements",
    "access_installation": "which table of which server the rows were written in; it says nothing of any tenant",
    "auth_group": "Django's own; groups are not used here",
    "auth_group_permissions": "Django's own; groups are not used here",
    "auth_permission": "Django's own; groups are not used here",
    "django_content_type": "Django's own; names of models",
    "django_migrations": "Django's own; names of migrations",
    "django_session": "sessions exist before a tenant is known; keys are random and the content is signed",
    "django_q_ormq": "the doorbell's queue; a task carries an id or nothing",
    "django_q_schedule": "the doorbell's schedule; no tenant's content",
    "django_q_task": "the doorbell's results; no tenant's content",
    "workflows_costbook": "how far costs are counted, and their currency; it says nothing of any tenant",
    "workflows_knownrevision": "names, revisions and digests of installed code; no tenant's content",
    "workflows_sharedlimit": "limits of the whole installation; they say nothing of any tenant",
    "workflows_worker": "processes, which serve every tenant",
}
"""Tables that stand outside row level security, each with its reason."""

_HIDDEN = {"access_tenanthead", "access_database_objects"}

_KNOWS_REVISIONS = "INSERT, UPDATE (described)"
_APP_MAY = {
    "access_installation": "UPDATE",
    "access_passwordentry": "INSERT",
    "access_person": "INSERT, UPDATE",
    "access_tenant": "INSERT, UPDATE (name, time_zone, revoked_at, revoke_reason, restored_at, known_until, shut_at)",
    "django_q_ormq": "INSERT, UPDATE, DELETE",
    "django_q_schedule": "INSERT, UPDATE, DELETE",
    "django_q_task": "INSERT, UPDATE, DELETE",
    "django_session": "INSERT, UPDATE, DELETE",
    "workflows_knownrevision": _KNOWS_REVISIONS,
    "workflows_sharedlimit": "INSERT, UPDATE, DELETE",
}
"""What the app's role may do to these tables beside SELECT; to the others nothing."""

_ENGINE_MAY = {
    "access_tenant": "",
    "workflows_costbook": "INSERT, UPDATE",
    "workflows_knownrevision": _KNOWS_REVISIONS,
    "workflows_sharedlimit": "UPDATE",
    "workflows_worker": "INSERT, UPDATE",
}
"""Likewise the engine's role, which does not even read the others."""

_registered: dict[str, Callable[[], str]] = {}

ROLES_SQL = "".join(
    f"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role} NOLOGIN; END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
DO $$ BEGIN
  -- From PostgreSQL 16 on the maker of a role may grant it, but must first grant itself the right to take it.
  IF NOT pg_has_role(session_user, '{role}',
    CASE WHEN current_setting('server_version_num')::int >= 160000 THEN 'SET' ELSE 'MEMBER' END) THEN
    EXECUTE format('GRANT {role} TO %I', session_user);
  END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$;
"""
    for role in (APP, ENGINE, JOURNAL)
)


def register(name: str, statements: Callable[[], str]) -> None:
    """Add a room's SQL. Rooms are applied in the order of their registration, lowest first."""
    _registered[name] = statements


def tenant_models() -> list[type[TenantModel]]:
    """Every concrete model whose rows belong to a tenant."""
    return [m for m in apps.get_models() if issubclass(m, TenantModel)]


def apply(connection: BaseDatabaseWrapper) -> bool:
    """Bring the database's objects up to date as its owner. True when something had to be done."""
    text = statements()
    digest = hashlib.sha256(text.encode()).hexdigest()
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE IF NOT EXISTS access_database_objects (only_row boolean PRIMARY KEY DEFAULT true"
            " CHECK (only_row), digest text NOT NULL)"
        )
        cursor.execute("SELECT digest FROM access_database_objects")
        row = cursor.fetchone()
        if row and row[0] == digest and not _is_copied(cursor):
            return False
        cursor.execute(text)
        cursor.execute(
            "INSERT INTO access_database_objects (digest) VALUES (%s)"
            " ON CONFLICT (only_row) DO UPDATE SET digest = excluded.digest",
            [digest],
        )
    return True


def _is_copied(cursor: CursorWrapper) -> bool:
    """Whether a dump was put back, perhaps without the owners and grants that it had."""
    cursor.execute("SELECT to_regprocedure('counterfoil_was_copied()') IS NOT NULL")
    if not cursor.fetchone()[0]:
        return False
    cursor.execute("SELECT counterfoil_was_copied()")
    return bool(cursor.fetchone()[0])


def statements() -> str:
    """All of it as one text."""
    parts = [_general(), *(make() for make in _registered.values())]
    parts += [_policies(model) for model in tenant_models()]
    parts += [_exempt_grants()]
    return "\n".join(parts)


def _general() -> str:
    return f"""
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO {APP}, {ENGINE}, {JOURNAL};
DO $$ BEGIN EXECUTE format('REVOKE TEMPORARY, CREATE ON DATABASE %I FROM PUBLIC', current_database()); END $$;
REVOKE ALL ON ALL TABLES IN SCHEMA public FROM PUBLIC, {APP}, {ENGINE}, {JOURNAL};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {APP}, {ENGINE}, {JOURNAL};
{FRAME_SQL}
"""


FRAME_SQL = """
CREATE OR REPLACE FUNCTION counterfoil_frame(value text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT int4send(octet_length(convert_to(value, 'UTF8'))) || convert_to(value, 'UTF8')
$$;
CREATE OR REPLACE FUNCTION counterfoil_micros(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
  SELECT (extract(epoch FROM at) * 1000000)::bigint
$$;
CREATE OR REPLACE FUNCTION counterfoil_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE FUNCTION counterfoil_refuse_ended() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'a row of % that has ended is not changed any more', TG_TABLE_NAME USING ERRCODE = 'check_violation';
END $$;
CREATE OR REPLACE FUNCTION counterfoil_tenant() RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT nullif(current_setting('app.tenant', true), '')::bigint
$$;
"""


def _policies(model: type[TenantModel]) -> str:
    table = model._meta.db_table
    mine = "tenant_id = nullif(current_setting('app.tenant', true), '')::bigint"
    lines = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;",
        f"DROP POLICY IF EXISTS tenant_rows ON {table};",
        f"CREATE POLICY tenant_rows ON {table} TO {APP} USING ({mine}) WITH CHECK ({mine});",
        f"DROP POLICY IF EXISTS engine_rows ON {table};",
        *_grants(table, APP, model.app_rights),
    ]
    if model.engine_rights is not None:
        lines.append(f"CREATE POLICY engine_rows ON {table} TO {ENGINE} USING (true) WITH CHECK (true);")
        lines += _grants(table, ENGINE, model.engine_rights)
    if model.append_only:
        lines.append(
            f"CREATE OR REPLACE TRIGGER append_only BEFORE UPDATE OR DELETE ON {table}"
            " FOR EACH ROW EXECUTE FUNCTION counterfoil_refuse_change();"
        )
    if model.ended_by:
        lines.append(
            f"CREATE OR REPLACE TRIGGER ended BEFORE UPDATE ON {table} FOR EACH ROW"
            f" WHEN (OLD.{model.ended_by} IS NOT NULL) EXECUTE FUNCTION counterfoil_refuse_ended();"
        )
    lines += _composite_keys(model)
    return "\n".join(lines) + "\n"


def _grants(table: str, role: str, rights: Rights) -> list[str]:
    lines = [f"GRANT SELECT ON {table} TO {role};"]
    if rights.insert:
        columns = f" ({', '.join(rights.insert_columns)})" if rights.insert_columns else ""
        lines.append(f"GRANT INSERT{columns} ON {table} TO {role};")
    if rights.update:
        lines.append(f"GRANT UPDATE ({', '.join(rights.update)}) ON {table} TO {role};")
    if rights.delete:
        lines.append(f"GRANT DELETE ON {table} TO {role};")
    return lines


def _composite_keys(model: type[TenantModel]) -> list[str]:
    lines: list[str] = []
    for field in model._meta.concrete_fields:
        if not isinstance(field, TenantForeignKey):
            continue
        table, target = model._meta.db_table, field.related_model._meta.db_table
        if field.by_statement:
            lines.append(f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {_key_name(table, field.column)};")
        else:
            lines.append(_composite_key(table, field.column, target))
    return lines or [_tenant_key(model._meta.db_table)]


def _tenant_key(table: str) -> str:
    return _constraint(table, f"{table}_tenant", "FOREIGN KEY (tenant_id) REFERENCES access_tenant (id)")


def _composite_key(table: str, column: str, target: str) -> str:
    index = f"CREATE UNIQUE INDEX IF NOT EXISTS {target}_tenant_key ON {target} (tenant_id, id);"
    definition = f"FOREIGN KEY (tenant_id, {column}) REFERENCES {target} (tenant_id, id)"
    return index + _constraint(table, _key_name(table, column), definition)


def _key_name(table: str, column: str) -> str:
    return f"{table}_{column}_tenant"[:63]


def _constraint(table: str, name: str, definition: str) -> str:
    return f"""
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_constraint WHERE conname = '{name}' AND conrelid = '{table}'::regclass) THEN
    ALTER TABLE {table} ADD CONSTRAINT {name} {definition};
  END IF;
END $$;"""


def _exempt_grants() -> str:
    readable = sorted(set(EXEMPT) - _HIDDEN)
    lines = [_exempt_grant(table, APP, _APP_MAY.get(table, "")) for table in readable]
    lines += [_exempt_grant(table, ENGINE, may) for table, may in _ENGINE_MAY.items()]
    lines.append(f"GRANT SELECT ON access_tenant TO {JOURNAL};")
    return "\n".join(lines)


def _exempt_grant(table: str, role: str, may: str) -> str:
    rights = f"SELECT, {may}" if may else "SELECT"
    return f"DO $$ BEGIN IF to_regclass('{table}') IS NOT NULL THEN GRANT {rights} ON {table} TO {role}; END IF; END $$;"
