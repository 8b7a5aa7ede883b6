"""The request log: a row is committed before the request is acted on, and completed before the answer leaves."""

import json
from hashlib import sha256
from typing import Any

from examples.simulators.database import Database, timestamp
from examples.simulators.faults import Fault
from examples.simulators.wire import Hangup, Incoming, Reply

SCHEMA = """
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL,
    key TEXT, headers TEXT NOT NULL, body TEXT, body_sha256 TEXT, fault TEXT,
    outcome TEXT, status INTEGER, answer TEXT, answered_at TEXT
);
"""
HEADERS = ("Content-Type", "User-Agent", "Idempotency-Key", "X-Operation-Key", "If-Match", "Authorization")
KEPT_BODY = 64 * 1024


class RequestLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self, request: Incoming, body: bytes | None, fault: Fault | None) -> int:
        """`body` is None when it was not, or could not be, read."""
        headers = {name: value for name in HEADERS if (value := request.header(name)) is not None}
        if "Authorization" in headers:
            headers["Authorization"] = "(present)"
        text = None if body is None else body[:KEPT_BODY].decode("utf-8", "replace")
        digest = None if body is None else sha256(body).hexdigest()
        key = headers.get("Idempotency-Key") or headers.get("X-Operation-Key")
        with self._database.transaction() as transaction:
            number = transaction.execute(
                "INSERT INTO request (at, method, path, key, headers, body, body_sha256, fault)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    timestamp(),
                    request.method,
                    request.path,
                    key,
                    json.dumps(headers),
                    text,
                    digest,
                    fault.kind if fault else None,
                ),
            ).lastrowid
        return number or 0

    def complete(self, number: int, reply: Reply) -> None:
        if isinstance(reply, Hangup):
            outcome, status, answer = ("reset" if reply.reset else "dropped"), None, None
        else:
            outcome, status, answer = "answered", reply.status, reply.body.decode("utf-8", "replace")
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE request SET outcome = ?, status = ?, answer = ?, answered_at = ? WHERE id = ?",
                (outcome, status, answer, timestamp(), number),
            )

    def requests(self, *, key: str | None = None, path: str | None = None) -> list[dict[str, Any]]:
        """Oldest first; `path` is a prefix. An outcome of None: still at work, or the process ended."""
        found = self._database.rows(
            "SELECT * FROM request WHERE (?1 IS NULL OR key = ?1) AND (?2 IS NULL OR substr(path, 1, length(?2)) = ?2)"
            " ORDER BY id",
            key,
            path,
        )
        return [{**dict(row), "headers": json.loads(row["headers"])} for row in found]
