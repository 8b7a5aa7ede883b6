"""The call log: a row is committed before the call is acted on, and completed before the answer leaves."""

import json
from typing import Any

from examples.simulators.database import Database, timestamp
from examples.simulators.provider.script import Question

SCHEMA = """
CREATE TABLE IF NOT EXISTS call (
    id INTEGER PRIMARY KEY AUTOINCREMENT, started_at TEXT NOT NULL, finished_at TEXT, outcome TEXT, status INTEGER,
    model TEXT NOT NULL, headers TEXT NOT NULL, script TEXT, user TEXT, last_user TEXT NOT NULL, rule TEXT NOT NULL,
    answer TEXT
);
"""
HEADERS = ("x-request-key", "idempotency-key", "user-agent")


class CallLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def start(self, question: Question, rule: str) -> int:
        headers = {name: question.headers[name] for name in HEADERS if name in question.headers}
        with self._database.transaction() as transaction:
            number = transaction.execute(
                "INSERT INTO call (started_at, model, headers, script, user, last_user, rule)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    timestamp(),
                    question.model,
                    json.dumps(headers),
                    question.script,
                    question.user,
                    question.last_user,
                    rule,
                ),
            ).lastrowid
        return number or 0

    def finish(
        self, number: int, outcome: str, *, status: int | None = None, answer: str | None = None
    ) -> None:
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE call SET finished_at = ?, outcome = ?, status = ?, answer = ? WHERE id = ?",
                (timestamp(), outcome, status, answer, number),
            )

    def calls(self, *, since: int = 0) -> list[dict[str, Any]]:
        """Oldest first, only those after the id `since`. Without an outcome: still at work, or the process ended."""
        found = self._database.rows("SELECT * FROM call WHERE id > ? ORDER BY id", since)
        return [{**dict(row), "headers": json.loads(row["headers"])} for row in found]

    def clear(self) -> None:
        """Ids go on from where they were, so that `since` keeps its meaning."""
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM call")
