"""A database for each test process: a copy of one that our own `migrate` made.

Migrating takes every process seconds, and what comes of it depends on few files. So it is done once for each content of
those, the result stays on the server as a template, and processes copy it. The newest few templates are kept, so that
going from branch to branch does not migrate either.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path

import django
import psycopg
from django.apps import apps
from django.core.management import call_command
from django.db import connections
from psycopg import sql

from access import database_objects
from config import database

TEMPLATE = "counterfoil_template_"
KEPT = 3
_LOCK = 7_203_118
"""The advisory lock, in the login's own database, of whoever makes, copies or drops a template."""


def make_copy(name: str) -> str:
    """A migrated database of this name, to be dropped by who asked; answers its address."""
    template = TEMPLATE + _digest()
    with psycopg.connect(database.login_url(), autocommit=True) as login:
        login.execute("SELECT pg_advisory_lock(%s)", [_LOCK])
        if not login.execute("SELECT FROM pg_database WHERE datname = %s", [template]).rowcount:
            _make_template(login, template)
        url = database.copy_database(template, name)
        # No test judges what a stop of this server leaves: those have servers of their own, with the product's settings.
        login.execute(sql.SQL("ALTER DATABASE {} SET synchronous_commit = off").format(sql.Identifier(name)))
    return url


def _make_template(login: psycopg.Connection[tuple[str]], template: str) -> None:
    """Migrate under another name first: a crash leaves a whole template or none."""
    unfinished = TEMPLATE + "unfinished"
    database.drop_database(unfinished)
    url = database.create_database(unfinished)
    _migrate(unfinished, url)
    _prepare_emptying(url)
    login.execute(
        sql.SQL("ALTER DATABASE {} RENAME TO {}").format(sql.Identifier(unfinished), sql.Identifier(template))
    )
    login.execute(sql.SQL("ALTER DATABASE {} WITH ALLOW_CONNECTIONS false").format(sql.Identifier(template)))
    old = login.execute(
        "SELECT datname FROM pg_database WHERE starts_with(datname, %s) ORDER BY oid DESC OFFSET %s",
        [TEMPLATE, KEPT],
    ).fetchall()
    for (name,) in old:
        database.drop_database(name)


def _migrate(name: str, url: str) -> None:
    with used_by_this_process(name, url):
        call_command("migrate", verbosity=0)


@contextmanager
def own() -> Iterator[None]:
    """A migrated database for this test alone, for what no other could be run in after it."""
    name = f"counterfoil_test_{secrets.token_hex(5)}"
    try:
        with used_by_this_process(name, make_copy(name)):
            yield
    finally:
        database.drop_database(name)


@contextmanager
def used_by_this_process(name: str, url: str) -> Iterator[None]:
    """Django and the processes that are started in the block use that database."""
    connection = connections["default"]
    connection.close()
    names = connection.settings_dict["NAME"], os.environ.get("DATABASE_URL")
    connection.settings_dict["NAME"], os.environ["DATABASE_URL"] = name, url
    try:
        yield
    finally:
        connections.close_all()
        connection.settings_dict["NAME"] = names[0]
        if names[1] is None:
            del os.environ["DATABASE_URL"]
        else:
            os.environ["DATABASE_URL"] = names[1]


def empty(owner: psycopg.Connection[tuple[object]]) -> None:
    """Delete every row, over a connection of the database's owner."""
    owner.execute("SET counterfoil_tests.emptying = 'on'; SELECT counterfoil_tests.empty()")


def _prepare_emptying(url: str) -> None:
    """Let this database's owner, and nobody else, delete append-only rows between tests.

    TRUNCATE takes a second, and a DELETE is planned anew each time: a function keeps its plans, and most tables are empty.
    """
    with psycopg.connect(url, autocommit=True) as owner:
        emptying = (
            "BEGIN IF TG_OP = 'DELETE' AND current_setting('counterfoil_tests.emptying', true) = 'on'"
            " AND current_user = session_user THEN RETURN OLD; END IF;"
        )
        for function in ("counterfoil_refuse_change", "statements_only_while_open"):
            (source,) = owner.execute("SELECT pg_get_functiondef(%s::regproc)", [function]).fetchone() or (
                "",
            )
            owner.execute(source.replace("BEGIN", emptying, 1))
        deletes = "".join(
            f"IF EXISTS (SELECT FROM {t}) THEN DELETE FROM {t}; END IF;" for t in _referring_first(owner)
        )
        owner.execute("CREATE SCHEMA counterfoil_tests")
        owner.execute(
            "CREATE FUNCTION counterfoil_tests.empty() RETURNS void LANGUAGE plpgsql"
            f" AS $$ BEGIN {deletes} END $$"
        )


def _referring_first(owner: psycopg.Connection[tuple[str, str]]) -> list[str]:
    tables = {m._meta.db_table for m in apps.get_models(include_auto_created=True) if m._meta.managed}
    graph: TopologicalSorter[str] = TopologicalSorter({t: set() for t in tables})
    references = owner.execute(
        "SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint"
        " WHERE contype = 'f' AND conrelid <> confrelid"
    )
    for referring, referred in references:
        if referring in tables and referred in tables:
            graph.add(referred, referring)
    return list(graph.static_order())


def _digest() -> str:
    """Of everything that the template's content follows from."""
    digest = hashlib.sha256(f"{django.__version__}\n{database_objects.statements()}".encode())
    for path in _sources():
        digest.update(f"{path.parent.parent.name}/{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def _sources() -> list[Path]:
    """Every app's migrations, what of ours they import, the command that applies them, and this module."""
    migrations = sorted(m for app in apps.get_app_configs() for m in Path(app.path).glob("migrations/*.py"))
    ours = {app.name for app in apps.get_app_configs() if "site-packages" not in app.path}
    imported = {
        name
        for path in migrations
        for name in re.findall(r"^(?:from|import) ([\w.]+)", path.read_text(), re.MULTILINE)
        if name.split(".")[0] in ours
    }
    modules = sorted({*imported, "access.management.commands.migrate", "access.database_objects", __name__})
    return migrations + [
        Path(spec.origin) for m in modules if (spec := importlib.util.find_spec(m)) and spec.origin
    ]
