"""The idempotency keys of the keyed contract.

A key is reserved before the change is applied and finished in the transaction that applies it, so a reservation that
outlives its process has applied nothing: `KeyStore` drops those when it opens the file.
"""

import time
from hashlib import sha256

from examples.simulators.database import Database, Transaction
from examples.simulators.wire import Answer, problem

SCHEMA = """
CREATE TABLE IF NOT EXISTS idempotency_key (
    key TEXT PRIMARY KEY, fingerprint TEXT NOT NULL, first_seen REAL NOT NULL, status INTEGER, body BLOB
);
"""


class KeyStore:
    def __init__(self, database: Database, retention: float) -> None:
        self._database = database
        self._retention = retention
        with database.transaction() as transaction:
            transaction.execute("DELETE FROM idempotency_key WHERE status IS NULL")

    def reserve(self, key: str, fingerprint: str) -> Answer | None:
        """None when the key is now ours; otherwise what its earlier request has to say."""
        with self._database.transaction() as transaction:
            transaction.execute(
                "DELETE FROM idempotency_key WHERE key = ? AND status IS NOT NULL AND first_seen <= ?",
                (key, time.time() - self._retention),
            )
            earlier = transaction.execute("SELECT * FROM idempotency_key WHERE key = ?", (key,)).fetchone()
            if earlier is None:
                transaction.execute(
                    "INSERT INTO idempotency_key (key, fingerprint, first_seen) VALUES (?, ?, ?)",
                    (key, fingerprint, time.time()),
                )
                return None
        if earlier["fingerprint"] != fingerprint:
            return problem(422, "key_reused", "This key was used with another request.")
        if earlier["status"] is None:
            return problem(
                409, "key_in_progress", "The first request with this key is still being processed."
            )
        return Answer(earlier["status"], earlier["body"], headers={"Idempotent-Replayed": "true"})

    def finish(self, transaction: Transaction, key: str, answer: Answer) -> None:
        transaction.execute(
            "UPDATE idempotency_key SET status = ?, body = ? WHERE key = ?", (answer.status, answer.body, key)
        )

    def release(self, key: str) -> None:
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM idempotency_key WHERE key = ? AND status IS NULL", (key,))

    def in_progress(self, key: str) -> bool:
        return bool(
            self._database.rows("SELECT 1 FROM idempotency_key WHERE key = ? AND status IS NULL", key)
        )

    def knows(self, key: str) -> bool:
        """Whether a finished request under this key is still retained."""
        oldest = time.time() - self._retention
        found = self._database.rows(
            "SELECT 1 FROM idempotency_key WHERE key = ? AND status IS NOT NULL AND first_seen > ?",
            key,
            oldest,
        )
        return bool(found)


def fingerprint_of(method: str, path: str, body: bytes) -> str:
    return sha256(b"\n".join([method.encode(), path.encode("utf-8", "replace"), body])).hexdigest()
