"""Which PostgreSQL server, and whether it will do. Imports nothing of Django: settings ask here first.

DATABASE_URL names a server; without it the embedded one is used (`config/embedded.py`). COUNTERFOIL_NO_DATABASE=1 is for
commands that only load the settings: no server is started, and a connection that is tried nevertheless fails.
"""

import os
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from config import embedded

OLDEST_VERSION = 14
ROLES = ("counterfoil_app", "counterfoil_engine", "counterfoil_journal")
"""The roles without login that `migrate` makes and every process takes one of."""

CONNECT_SECONDS = 10


class DatabaseUnusable(Exception):
    """One sentence that says what is wrong with the database server and what to do about it."""


def login_url() -> str:
    """The address that this process logs in with. Starts the embedded server where that is the one.

    Raises DatabaseUnusable when the embedded server cannot be started.
    """
    if url := os.environ.get("DATABASE_URL"):
        return url
    if not os.environ.get("COUNTERFOIL_NO_DATABASE"):
        try:
            embedded.use_server()
        except embedded.EmbeddedUnusable as unusable:
            raise DatabaseUnusable(str(unusable)) from unusable
    return embedded.server_url()


def parameters(url: str) -> dict[str, Any]:
    """The parts of an address under the names Django's DATABASES uses; psycopg takes the address itself."""
    if not url.startswith(("postgresql://", "postgres://")):
        raise DatabaseUnusable(
            "DATABASE_URL must look like postgresql://user:password@host:5432/database; other databases are not supported."
        )
    try:
        parts: dict[str, Any] = dict(conninfo_to_dict(url))
    except psycopg.ProgrammingError as malformed:
        raise DatabaseUnusable(
            f"DATABASE_URL is not a PostgreSQL address: {_one_line(malformed)}."
        ) from malformed
    if not parts.get("dbname"):
        raise DatabaseUnusable(
            "DATABASE_URL names no database: end it with /counterfoil or the name of yours."
        )
    return {
        "NAME": parts.pop("dbname"),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": str(parts.pop("port", "")),
        "OPTIONS": {"connect_timeout": CONNECT_SECONDS, **parts},
    }


def django_parameters() -> dict[str, Any]:
    """What settings put into DATABASES["default"] beside the engine."""
    return parameters(login_url())


def check_server(url: str) -> None:
    """Raises DatabaseUnusable unless the server can be reached, is new enough and the login role fits."""
    named = parameters(url)
    try:
        with psycopg.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True) as connection:
            _check_version(connection)
            _check_login(connection, named["NAME"])
    except psycopg.OperationalError as refused:
        raise DatabaseUnusable(_why_refused(refused, named)) from refused


def create_database(name: str) -> str:
    """A new empty database beside the login's own, owned by the login role; answers its address."""
    return _create(name, sql.SQL(""))


def copy_database(template: str, name: str) -> str:
    """A new database with the content of `template`, to which nobody may be connected; answers its address."""
    return _create(name, sql.SQL(" TEMPLATE {}").format(sql.Identifier(template)))


def drop_database(name: str) -> None:
    """Drop a database made by one of the two above, ending the sessions in it. A missing one is no error."""
    drop = sql.SQL("DROP DATABASE IF EXISTS {}").format(sql.Identifier(name))
    with _administration() as connection:
        try:
            connection.execute(drop + sql.SQL(" WITH (FORCE)"))
        except psycopg.errors.InsufficientPrivilege:
            # An autovacuum is in it, which FORCE may not end for a role like ours; a plain DROP sends it away itself.
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s AND usename = session_user",
                [name],
            )
            connection.execute(drop)


def url_for(name: str) -> str:
    """The address of another database on the login's server."""
    parts = urlsplit(login_url())
    return urlunsplit(parts._replace(path="/" + quote(name, safe="")))


def _create(name: str, template: sql.Composable) -> str:
    identifier = sql.Identifier(name)
    with _administration() as connection:
        try:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(identifier) + template)
        except psycopg.errors.InsufficientPrivilege as refused:
            user = connection.info.user
            raise DatabaseUnusable(
                f'The role "{user}" may not create databases, which tests, demos and the benchmark need: as a superuser '
                f'run ALTER ROLE "{user}" CREATEDB;'
            ) from refused
        # A database's own privileges are not copied with its content.
        connection.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC").format(identifier))
    return url_for(name)


def _administration() -> "psycopg.Connection[tuple[Any, ...]]":
    url = login_url()
    check_server(url)
    return psycopg.connect(url, connect_timeout=CONNECT_SECONDS, autocommit=True)


def _check_version(connection: "psycopg.Connection[tuple[Any, ...]]") -> None:
    if connection.info.server_version < OLDEST_VERSION * 10000:
        found = connection.info.parameter_status("server_version")
        raise DatabaseUnusable(
            f"The database server is PostgreSQL {found}, and Counterfoil needs {OLDEST_VERSION} or newer: upgrade the server, "
            f"or unset DATABASE_URL to use the embedded one."
        )


def _check_login(connection: "psycopg.Connection[tuple[Any, ...]]", database: str) -> None:
    row = connection.execute(
        "SELECT session_user, rolsuper, rolbypassrls, rolcreaterole FROM pg_roles WHERE rolname = session_user"
    ).fetchone()
    assert row is not None
    user, is_superuser, bypasses, may_create_roles = row
    if is_superuser or bypasses:
        power = "is a superuser" if is_superuser else "bypasses row level security"
        raise DatabaseUnusable(
            f'The login role "{user}" {power}, so nothing would keep tenants apart: as a superuser run '
            f"CREATE ROLE counterfoil LOGIN CREATEROLE PASSWORD '...'; ALTER DATABASE \"{database}\" OWNER TO counterfoil; "
            f"and name that role in DATABASE_URL."
        )
    missing, unheld = _roles_missing_and_unheld(connection)
    if missing and not may_create_roles:
        raise DatabaseUnusable(
            f'The login role "{user}" may not create the roles {", ".join(missing)}: as a superuser run '
            f'ALTER ROLE "{user}" CREATEROLE;'
        )
    if unheld and not (may_create_roles and connection.info.server_version < 160000):
        raise DatabaseUnusable(
            f'The login role "{user}" is no member of {", ".join(unheld)}, which exist on this server: as a superuser run '
            f'GRANT {", ".join(unheld)} TO "{user}" WITH ADMIN OPTION;'
        )


def _roles_missing_and_unheld(
    connection: "psycopg.Connection[tuple[Any, ...]]",
) -> tuple[list[str], list[str]]:
    rows = connection.execute(
        "SELECT rolname, pg_has_role(session_user, oid, 'MEMBER') FROM pg_roles WHERE rolname = ANY(%s)",
        [list(ROLES)],
    ).fetchall()
    is_member = {str(name): bool(member) for name, member in rows}
    return [r for r in ROLES if r not in is_member], [r for r in ROLES if not is_member.get(r, True)]


def _why_refused(refused: psycopg.OperationalError, named: dict[str, Any]) -> str:
    said = _one_line(refused)
    where = named["HOST"] or "the local socket"
    if 'database "' in said and "does not exist" in said:
        owner = named["USER"] or "counterfoil"
        return (
            f'The database "{named["NAME"]}" does not exist at {where}: as a superuser run '
            f'CREATE DATABASE "{named["NAME"]}" OWNER "{owner}";'
        )
    if "password authentication failed" in said or 'role "' in said or "no password supplied" in said:
        return (
            f'The database server at {where} refused the role "{named["USER"]}" ({said}): check DATABASE_URL.'
        )
    if "starting up" in said or "shutting down" in said:
        return f"The database server at {where} is not ready ({said}): try again in a moment."
    return f"The database server at {where} cannot be reached ({said}): start it, or check DATABASE_URL."


def _one_line(error: BaseException) -> str:
    """The server's own words, without the address and the hints libpq adds."""
    said = " ".join(str(error).split()).removeprefix("connection failed: ")
    said = said.split("Multiple connection attempts failed")[0].split(" Is the server running")[0]
    return said.split("FATAL: ")[-1].strip().rstrip(".")
