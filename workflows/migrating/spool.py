"""Converted results between a look and the deed: on disk once they are many, never all of them in memory."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator

CHUNK = 500
IN_MEMORY = 4_000_000

Row = list[str | int]


class Spool:
    """Rows of short values, written once and read in chunks, as often as need be."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY, mode="w+", encoding="utf-8")  # noqa: SIM115
        self.count = 0

    def add(self, *row: str | int) -> None:
        """Write another row."""
        self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
        self.count += 1

    def chunks(self) -> Iterator[list[Row]]:
        """All rows, at most 500 at a time; to be read to the end before more are added."""
        self._file.seek(0)
        chunk: list[Row] = []
        for line in self._file:
            chunk.append(json.loads(line))
            if len(chunk) == CHUNK:
                yield chunk
                chunk = []
        if chunk:
            yield chunk
        self._file.seek(0, os.SEEK_END)

    def close(self) -> None:
        """Forget all of them."""
        self._file.close()
