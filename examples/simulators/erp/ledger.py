"""Records and the effects that made them what they are. An effect is written in the transaction that applies it."""

import json
import sqlite3
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from examples.simulators.database import Database, Transaction, timestamp

SCHEMA = """
CREATE TABLE IF NOT EXISTS record (
    id TEXT NOT NULL, kind TEXT NOT NULL, version INTEGER NOT NULL, suspended INTEGER NOT NULL DEFAULT 0,
    fields TEXT NOT NULL, updated_at TEXT NOT NULL,
    PRIMARY KEY (kind, id)
);
CREATE TABLE IF NOT EXISTS effect (
    id INTEGER PRIMARY KEY AUTOINCREMENT, contract TEXT NOT NULL, operation_key TEXT, method TEXT NOT NULL,
    path TEXT NOT NULL, record TEXT NOT NULL, version INTEGER NOT NULL, body_sha256 TEXT NOT NULL,
    fields TEXT NOT NULL, applied_at TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS effect_by_key ON effect (contract, operation_key);
"""

SEED = Path(__file__).parent / "vendors.json"


@dataclass(frozen=True)
class Write:
    """One change as it was asked for. `record` is empty when the receiver is to choose the id."""

    contract: str
    operation_key: str | None
    method: str
    path: str
    kind: str
    record: str
    body: bytes
    fields: dict[str, Any]


def seed_vendors(database: Database) -> None:
    with database.transaction() as transaction:
        if transaction.execute("SELECT 1 FROM record LIMIT 1").fetchone():
            return
        for vendor in json.loads(SEED.read_text("utf-8")):
            version, suspended = vendor["version"], vendor["suspended"]
            _store(transaction, vendor["record"], "vendor", version, suspended, vendor["fields"], timestamp())


def apply_write(transaction: Transaction, write: Write) -> tuple[bool, dict[str, Any]]:
    """Returns whether the record is new, and the receipt. Inside the caller's transaction; a repeat applies again."""
    now, record = timestamp(), write.record or _next_record(transaction)
    known = transaction.execute("SELECT * FROM record WHERE id = ? AND kind = ?", (record, write.kind))
    current = known.fetchone()
    version = current["version"] + 1 if current else 1
    fields = {**(json.loads(current["fields"]) if current else {}), **write.fields}
    suspended = bool(fields.pop("suspended", current["suspended"] if current else False))
    _store(transaction, record, write.kind, version, suspended, fields, now)
    effect = transaction.execute(
        "INSERT INTO effect (contract, operation_key, method, path, record, version, body_sha256, fields, applied_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            write.contract,
            write.operation_key,
            write.method,
            write.path,
            record,
            version,
            sha256(write.body).hexdigest(),
            json.dumps(write.fields),
            now,
        ),
    ).lastrowid
    receipt = {"id": f"R-{effect:06d}", "record": record, "version": version, "applied_at": now}
    return current is None, {**receipt, "fields": write.fields}


def record_as_it_is(database: Database, kind: str, record: str) -> dict[str, Any] | None:
    rows = database.rows("SELECT * FROM record WHERE id = ? AND kind = ?", record, kind)
    if not rows:
        return None
    row = rows[0]
    return {
        "record": row["id"],
        "version": row["version"],
        "suspended": bool(row["suspended"]),
        "updated_at": row["updated_at"],
        "fields": json.loads(row["fields"]),
    }


def effects(database: Database, *, key: str | None = None, record: str | None = None) -> list[dict[str, Any]]:
    """Oldest first."""
    found = database.rows(
        "SELECT * FROM effect WHERE (?1 IS NULL OR operation_key = ?1) AND (?2 IS NULL OR record = ?2) ORDER BY id",
        key,
        record,
    )
    return [_effect(row) for row in found]


def effects_under_key(database: Database, contract: str, key: str) -> list[dict[str, Any]]:
    found = database.rows(
        "SELECT * FROM effect WHERE contract = ? AND operation_key = ? ORDER BY id", contract, key
    )
    return [_effect(row) for row in found]


def _effect(row: sqlite3.Row) -> dict[str, Any]:
    return {**dict(row), "id": f"R-{row['id']:06d}", "fields": json.loads(row["fields"])}


def _next_record(transaction: Transaction) -> str:
    count: int = transaction.execute("SELECT count(*) FROM record WHERE kind = 'policy'").fetchone()[0]
    return f"P-{count + 1:05d}"


def _store(
    transaction: Transaction,
    record: str,
    kind: str,
    version: int,
    suspended: bool,
    fields: dict[str, Any],
    now: str,
) -> None:
    transaction.execute(
        "INSERT OR REPLACE INTO record (id, kind, version, suspended, fields, updated_at) VALUES (?, ?, ?, ?, ?, ?)",
        (record, kind, version, suspended, json.dumps(fields), now),
    )
