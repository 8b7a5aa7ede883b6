"""Lists as PostgreSQL writes arrays, made in one go: psycopg looks for a dumper for every list and every element of it,
which took a third of what a small batch of the committer cost."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.adapt import Dumper


class ArrayDumper(Dumper):
    """A list of integers, floats, decimals, booleans, texts, moments or None, one kind in each, as text.

    Its type is left to the statement, which says it by a cast or by what it compares with. Raises `psycopg.DataError`
    for a NUL, as psycopg does, `psycopg.ProgrammingError` for another kind, `UnicodeEncodeError` for what is no UTF-8.
    """

    def dump(self, obj: Iterable[Any]) -> bytes:
        """For example `{1,NULL,3}` or `{"a","b \\"c\\""}`."""
        text = "{" + ",".join(map(_element, obj)) + "}"
        if "\0" in text:
            raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
        return text.encode()


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, datetime):
        return '"' + value.isoformat() + '"'
    if isinstance(value, int | float | Decimal):
        return str(value)
    raise psycopg.ProgrammingError(f"no column takes a {type(value).__name__}")
