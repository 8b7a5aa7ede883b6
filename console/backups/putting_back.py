"""Putting a backup back: in one transaction, with what was there dropped in it, so that it is all or nothing.

What comes out of it is a copy (`access/copied_sql.py`): nothing is sent from it before `migrate` has shut dispatch and
somebody has opened it again.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader

from access import copied_sql
from access.database_objects import ROLES_SQL
from config import database
from config.dumping import DumpUnusable, Tools, tools
from console.backups.content import JOBS, Content, of_database, of_file
from workflows import verification

_DROP = """
BEGIN;
DO $$ DECLARE one record; BEGIN
  FOR one IN SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' LOOP
    EXECUTE format('DROP TABLE IF EXISTS public.%I CASCADE', one.name);
  END LOOP;
  FOR one IN SELECT p.oid::regprocedure AS name FROM pg_proc p WHERE pronamespace = 'public'::regnamespace
    AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e') LOOP
    EXECUTE format('DROP ROUTINE IF EXISTS %s CASCADE', one.name);
  END LOOP;
END $$;
"""
# A dump has no statistics. Without them the server takes an organisation to have a row or two in each table, and reads all
# of its operations for every send, until autovacuum comes by.
_CLOSE = f"""
SET search_path = public;
{copied_sql.TABLE}
INSERT INTO access_installation (home_table, home_server) VALUES (0, 0) ON CONFLICT DO NOTHING;
DELETE FROM access_database_objects;
COMMIT;
ANALYZE;
"""  # noqa: S608 - our own names
_WRITTEN_ANEW = {"access_installation", "access_database_objects"}
_NOT_FOR_OLDER_SERVERS = b"SET transaction_timeout = 0;\n"


@dataclass(frozen=True, slots=True)
class Lost:
    """What the database holds that the dump does not: jobs that it does not know, and jobs that went on after it."""

    jobs: int
    unknown: int
    went_on: int


def look(path: Path) -> tuple[Content, Lost]:
    """Read the dump whole, and say what putting it back would lose. Changes nothing. Raises DumpUnusable."""
    if not path.is_file():
        raise DumpUnusable(f"There is no file {path}")
    with tools() as programs:
        content = of_file(path, programs)
    if strange := sorted(content.migrations - set(MigrationLoader(None).disk_migrations)):
        raise DumpUnusable(
            f"{path} was made by a newer version, with {strange[-1][0]}.{strange[-1][1]}: deploy that"
        )
    with psycopg.connect(database.login_url()) as connection:
        return content, _lost(connection, content)


def put_back(path: Path, content: Content) -> None:
    """Replace the database's content by the dump's, compare it, bring it up to date, and verify every journal.

    Dispatch is shut when it ends, and at every moment before. Refused while others are connected. Raises DumpUnusable.
    """
    connections.close_all()
    with tools() as programs, psycopg.connect(database.login_url()) as connection:
        _require_alone(connection)
        connection.execute(ROLES_SQL)  # a new server has none, and the dump's policies name them
        connection.commit()
        with tempfile.NamedTemporaryFile("w", suffix=".list") as wanted:
            wanted.writelines(_list(path, programs))
            wanted.flush()
            programs.feed(
                "psql",
                ["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1"],
                _script(path, wanted.name, programs, connection.info.server_version),
            )
        found = of_database(connection)
    for table in _WRITTEN_ANEW:
        found.rows.pop(table, None)
        content.rows.pop(table, None)
    if differs := found.differs_from(content):
        raise DumpUnusable(f"What was put back is not what the file holds: {differs}. Dispatch stays shut")
    call_command("migrate", interactive=False, verbosity=0)
    for bad in (verification.verify_jobs().bad, verification.verify_tenants().bad):
        if bad is not None:
            raise DumpUnusable(f"The backup's journal was changed; first bad row: {bad}. Dispatch stays shut")


def _lost(connection: psycopg.Connection[tuple[object, ...]], content: Content) -> Lost:
    there = connection.execute("SELECT to_regclass(%s)", [f"public.{JOBS}"]).fetchone()
    if there is None or there[0] is None:
        return Lost(0, 0, 0)
    rows = connection.execute("SELECT id, version FROM public.workflows_job").fetchall()
    unknown = sum(job not in content.versions for job, _ in rows)
    went_on = sum(job in content.versions and version != content.versions[job] for job, version in rows)
    return Lost(len(rows), unknown, went_on)


def _require_alone(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    others = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        " AND backend_type = 'client backend'"
    ).fetchone()
    assert others is not None
    if others[0]:
        raise DumpUnusable(
            f"{others[0]} others are connected to the database: stop the workers and the web first"
        )


def _list(path: Path, programs: Tools) -> Iterator[str]:
    """The dump's table of contents without the schema, which is there and may not be ours to make."""
    with programs.reading("pg_restore", "--list", "--schema=public", str(path)) as output:
        for line in output:
            text = line.decode()
            if (
                not text.startswith(";")
                and " SCHEMA - public " not in text
                and " - SCHEMA public " not in text
            ):
                yield text


def _script(path: Path, wanted: str, programs: Tools, server: int) -> Iterator[bytes]:
    yield _DROP.encode()
    with programs.reading(
        "pg_restore", f"--use-list={wanted}", "--no-owner", "--no-privileges", "-f", "-", str(path)
    ) as output:
        for line in output:
            if server >= 170000 or line != _NOT_FOR_OLDER_SERVERS:
                yield line
    yield _CLOSE.encode()
