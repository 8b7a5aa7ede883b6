"""Taking a backup: a dump of one moment, which counts as one once it was read back and found to hold that moment."""

from __future__ import annotations

import os
from pathlib import Path

import psycopg

from config import database
from config.dumping import DumpUnusable, tools
from console.backups.content import Content, of_database, of_file


def take(path: Path) -> Content:
    """Write the dump, read it back whole, compare rows and heads of journals, and only then give it its name.

    While work goes on: dump and figures see one snapshot. Raises DumpUnusable, DatabaseUnusable.
    """
    if path.exists():
        raise DumpUnusable(f"{path} is there already: choose another name, or move it away")
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        os.close(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))
    except OSError as refused:
        raise DumpUnusable(f"{path} cannot be written: {refused.strerror}") from refused
    try:
        found = _dump(unfinished)
        os.link(unfinished, path)  # never over a file that came meanwhile
    except FileExistsError as there:
        raise DumpUnusable(f"{path} is there already: choose another name, or move it away") from there
    finally:
        unfinished.unlink()
    return found


def _dump(path: Path) -> Content:
    with tools() as programs, psycopg.connect(database.login_url()) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.read_only = True
        row = connection.execute("SELECT pg_export_snapshot()").fetchone()
        assert row is not None
        programs.run(
            "pg_dump", "--format=custom", "--schema=public", f"--snapshot={row[0]}", f"--file={path}"
        )
        there = of_database(connection)
        found = of_file(path, programs)
    if differs := found.differs_from(there):
        raise DumpUnusable(f"What was written is not what the database holds: {differs}")
    _sync(path)
    return found


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
