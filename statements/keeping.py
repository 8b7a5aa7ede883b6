"""A statement's file: rows of a million bytes each, so that neither keeping nor reading it holds all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from access.tenancy import reading
from statements.decoding import mark_length
from statements.models import Statement, StatementPart
from statements.table import Row, pieces, rows
from statements.terms import Terms

PART = 1_000_000
"""Bytes of every part but the last."""


def parts_of(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, in parts."""
    begun = bytearray()
    for chunk in chunks:
        begun += chunk
        while len(begun) >= PART:
            yield bytes(begun[:PART])
            del begun[:PART]
    if begun:
        yield bytes(begun)


def keep(statement: Statement, parts: Iterable[bytes]) -> None:
    """Write a new statement's file. Runs in the caller's transaction."""
    for number, content in enumerate(parts):
        StatementPart.objects.create(
            tenant_id=statement.tenant_id, statement=statement, number=number, content=content
        )


def content_of(statement: Statement) -> Iterator[bytes]:
    """The file, part after part, each read in a transaction of its own."""
    block_at = blocks_of(statement)
    return (block_at(position) for position in range(0, statement.size, PART))


def blocks_of(statement: Statement) -> Callable[[int], bytes]:
    """What reads a statement's bytes from a position to the end of its part."""

    def block_at(position: int) -> bytes:
        number, begin = divmod(position, PART)
        with reading(statement.tenant_id):
            parts = StatementPart.objects.filter(statement_id=statement.pk, number=number)
            content = bytes(parts.values_list("content", flat=True).get())
        return content[begin:]

    return block_at


def rows_from(statement: Statement, terms: Terms, position: int, line: int) -> Iterator[Row]:
    """The rows of a delimited file from a position on, whose line it is."""
    block_at = blocks_of(statement)
    if position == 0:
        position = mark_length(block_at(0), statement.encoding)
    encoding = encoding_of(statement, terms)
    found = pieces(block_at, position, statement.size, encoding)
    return rows(found, encoding=encoding, delimiter=terms.delimiter, position=position, line=line)


def first_rows(statement: Statement, terms: Terms, most: int) -> list[Row]:
    """The rows at the start."""
    return list(islice(rows_from(statement, terms, 0, 1), most))


def encoding_of(statement: Statement, terms: Terms) -> str:
    """What its bytes are: as the file itself shows, or else as the mapping says."""
    return statement.encoding or terms.encoding
