"""What came: letters and webhooks, in the order in which they came."""

from pathlib import Path
from typing import Any

from examples.simulators.database import Database, timestamp

SCHEMA = """
CREATE TABLE IF NOT EXISTS letter (
  id INTEGER PRIMARY KEY, at TEXT NOT NULL, sender TEXT NOT NULL, recipient TEXT NOT NULL, subject TEXT NOT NULL,
  message_id TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS hook (
  id INTEGER PRIMARY KEY, at TEXT NOT NULL, path TEXT NOT NULL, webhook_id TEXT NOT NULL, signature TEXT NOT NULL,
  body TEXT NOT NULL);
"""


class Kept:
    def __init__(self, path: Path) -> None:
        self._database = Database(path, SCHEMA)

    def letter(self, *, sender: str, recipient: str, subject: str, message_id: str, text: str) -> None:
        """On disk when this returns."""
        with self._database.transaction() as at:
            at.execute(
                "INSERT INTO letter (at, sender, recipient, subject, message_id, text) VALUES (?, ?, ?, ?, ?, ?)",
                (timestamp(), sender, recipient, subject, message_id, text),
            )

    def hook(self, *, path: str, webhook_id: str, signature: str, body: str) -> None:
        """On disk when this returns."""
        with self._database.transaction() as at:
            at.execute(
                "INSERT INTO hook (at, path, webhook_id, signature, body) VALUES (?, ?, ?, ?, ?)",
                (timestamp(), path, webhook_id, signature, body),
            )

    def letters(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._database.rows("SELECT * FROM letter ORDER BY id DESC LIMIT 200")]

    def hooks(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._database.rows("SELECT * FROM hook ORDER BY id DESC LIMIT 200")]
