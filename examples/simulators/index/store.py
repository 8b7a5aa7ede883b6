"""Collections, the entries in them by group, and the log of every change that was really made."""

import json
import math
from dataclasses import dataclass
from typing import Any

from examples.simulators.database import Database, Transaction, timestamp

SCHEMA = """
CREATE TABLE IF NOT EXISTS collection (name TEXT PRIMARY KEY, dimensions INTEGER NOT NULL, created_at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entry (
    collection TEXT NOT NULL, id TEXT NOT NULL, grp TEXT NOT NULL, text TEXT NOT NULL, vector TEXT NOT NULL,
    PRIMARY KEY (collection, id)
);
CREATE INDEX IF NOT EXISTS entry_by_group ON entry (collection, grp);
CREATE TABLE IF NOT EXISTS change (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, kind TEXT NOT NULL, collection TEXT NOT NULL,
    grp TEXT NOT NULL, entries INTEGER NOT NULL
);
"""


@dataclass(frozen=True)
class Entry:
    """One text with its vector."""

    id: str
    text: str
    vector: list[float]


class Store:
    """Each method is one transaction; what changed something is in the log, what changed nothing is not."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, name: str, dimensions: int) -> str:
        """ "created", "known", or "other" where it is there with other dimensions."""
        with self._database.transaction() as transaction:
            known = transaction.execute(
                "SELECT dimensions FROM collection WHERE name = ?", (name,)
            ).fetchone()
            if known is not None:
                return "known" if known["dimensions"] == dimensions else "other"
            transaction.execute("INSERT INTO collection VALUES (?, ?, ?)", (name, dimensions, timestamp()))
            _log(transaction, "collection created", name)
        return "created"

    def dimensions(self, name: str) -> int | None:
        rows = self._database.rows("SELECT dimensions FROM collection WHERE name = ?", name)
        return rows[0]["dimensions"] if rows else None

    def put(self, name: str, group: str, entries: list[Entry]) -> bool:
        """Store entries, each in the place of one with the same id. False: there is no such collection."""
        with self._database.transaction() as transaction:
            if transaction.execute("SELECT 1 FROM collection WHERE name = ?", (name,)).fetchone() is None:
                return False
            transaction.executemany(
                "INSERT OR REPLACE INTO entry (collection, id, grp, text, vector) VALUES (?, ?, ?, ?, ?)",
                [(name, e.id, group, e.text, json.dumps(e.vector)) for e in entries],
            )
            _log(transaction, "entries stored", name, group, len(entries))
        return True

    def delete_group(self, name: str, group: str) -> int:
        """How many entries were deleted."""
        with self._database.transaction() as transaction:
            where = (name, group)
            gone = transaction.execute("DELETE FROM entry WHERE collection = ? AND grp = ?", where).rowcount
            if gone:
                _log(transaction, "group deleted", name, group, gone)
        return gone

    def delete(self, name: str) -> bool:
        """Whether there was such a collection."""
        with self._database.transaction() as transaction:
            if not transaction.execute("DELETE FROM collection WHERE name = ?", (name,)).rowcount:
                return False
            gone = transaction.execute("DELETE FROM entry WHERE collection = ?", (name,)).rowcount
            _log(transaction, "collection deleted", name, entries=gone)
        return True

    def search(self, name: str, vector: list[float], limit: int) -> list[dict[str, Any]]:
        """The nearest entries, the nearest first; of equals the one with the smaller id."""
        found = [
            {
                "id": row["id"],
                "text": row["text"],
                "score": round(_cosine(vector, json.loads(row["vector"])), 6),
            }
            for row in self._database.rows("SELECT * FROM entry WHERE collection = ?", name)
        ]
        return sorted(found, key=lambda e: (-e["score"], e["id"]))[:limit]

    def collections(self) -> list[dict[str, Any]]:
        rows = self._database.rows(
            "SELECT c.name, c.dimensions, c.created_at, count(e.id) AS entries FROM collection c"
            " LEFT JOIN entry e ON e.collection = c.name GROUP BY c.name ORDER BY c.created_at, c.name"
        )
        return [dict(row) for row in rows]

    def changes(self, collection: str | None = None) -> list[dict[str, Any]]:
        """Oldest first."""
        rows = self._database.rows(
            'SELECT id, at, kind, collection, grp AS "group", entries FROM change'
            " WHERE ?1 IS NULL OR collection = ?1 ORDER BY id",
            collection,
        )
        return [dict(row) for row in rows]


def _log(transaction: Transaction, kind: str, collection: str, group: str = "", entries: int = 0) -> None:
    transaction.execute(
        "INSERT INTO change (at, kind, collection, grp, entries) VALUES (?, ?, ?, ?, ?)",
        (timestamp(), kind, collection, group, entries),
    )


def _cosine(a: list[float], b: list[float]) -> float:
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0.0
