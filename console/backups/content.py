"""What a dump holds and what a database holds, in the same terms: rows of each table, and the head of every journal."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

from config.dumping import DumpUnusable, Tools

JOBS, HEADS, MIGRATIONS = "workflows_job", "access_tenanthead", "django_migrations"
_COPY = re.compile(rb"COPY public\.(\w+) \((.*)\) FROM stdin;\n")
_WANTED = {
    JOBS: ("id", "version", "head"),
    HEADS: ("tenant_id", "version", "head"),
    MIGRATIONS: ("id", "app", "name"),
}


@dataclass
class Content:
    """Rows by table; version by job; a digest over the heads of all journals, in any order; migrations."""

    rows: dict[str, int] = field(default_factory=dict)
    versions: dict[int, int] = field(default_factory=dict)
    heads: int = 0
    migrations: set[tuple[str, str]] = field(default_factory=set)

    def add(self, table: str, row: tuple[bytes, bytes, bytes]) -> None:
        """One of the rows that are looked into."""
        if table == MIGRATIONS:
            self.migrations.add((row[1].decode(), row[2].decode()))
            return
        if table == JOBS:
            self.versions[int(row[0])] = int(row[1])
        head = hashlib.sha256(b"|".join((table.encode(), *row))).digest()
        self.heads = (self.heads + int.from_bytes(head)) % 2**256

    def differs_from(self, other: Content) -> str:
        """In what first, or ""."""
        for table in sorted({*self.rows, *other.rows}):
            here, there = self.rows.get(table, 0), other.rows.get(table, 0)
            if here != there:
                return f"{table} has {here:,} rows and not {there:,}"
        return "" if self.heads == other.heads else "the heads of its journals are others"


def of_file(path: Path, tools: Tools) -> Content:
    """Read a dump from its first byte to its last. Raises DumpUnusable where it is none, or not whole."""
    content = Content()
    with tools.reading("pg_restore", "--data-only", "--schema=public", "-f", "-", str(path)) as output:
        lines = iter(output)
        for line in lines:
            if (begins := _COPY.fullmatch(line)) is not None:
                table = begins[1].decode()
                columns = [name.strip(b' "').decode() for name in begins[2].split(b",")]
                content.rows[table] = _take(content, table, columns, lines)
    if JOBS not in content.rows:
        raise DumpUnusable(f"{path} holds no jobs' table: it is no backup of this application")
    return content


def of_database(connection: psycopg.Connection[Any]) -> Content:
    """What the connection's transaction sees. As the owner, whom no policy hides a row from."""
    content = Content()
    tables = [
        name
        for (name,) in connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"
        )
    ]
    for table in tables:
        counted = connection.execute(sql.SQL("SELECT count(*) FROM public.{}").format(sql.Identifier(table)))
        content.rows[table] = _one(counted)
    for table in set(_WANTED) & set(tables):
        with connection.cursor(name=f"backup_{table}") as cursor:
            columns = sql.SQL(", ").join(map(_as_text, _WANTED[table]))
            cursor.execute(sql.SQL("SELECT {} FROM public.{}").format(columns, sql.Identifier(table)))
            for row in cursor:
                content.add(table, tuple(str(value).encode() for value in row))  # type: ignore[arg-type]
    return content


def _take(content: Content, table: str, columns: list[str], lines: Iterator[bytes]) -> int:
    places = [columns.index(name) for name in _WANTED.get(table, ())]
    for count, line in enumerate(lines):
        if line == b"\\.\n":
            return count
        if places:
            values = line.rstrip(b"\n").split(b"\t")
            content.add(table, tuple(values[at].removeprefix(b"\\\\x") for at in places))  # type: ignore[arg-type]
    raise DumpUnusable(f"The dump ends within {table}")


def _as_text(column: str) -> sql.Composable:
    name = sql.Identifier(column)
    return sql.SQL("encode({}, 'hex')").format(name) if column == "head" else sql.SQL("{}::text").format(name)


def _one(cursor: psycopg.Cursor[Any]) -> int:
    row = cursor.fetchone()
    assert row is not None
    return int(row[0])
