"""Signed callbacks, as Standard Webhooks describes them: queued in the transaction of what they tell, then sent.

What is not taken (no connection, 429, 5xx) is sent again, with growing waits; any other answer ends it. A plan says what
the callbacks of the next accepted write do wrong.
"""

import json
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from standardwebhooks.webhooks import Webhook

from examples.simulators.database import Database, Transaction
from examples.simulators.wire import Refused, problem

SCHEMA = """
CREATE TABLE IF NOT EXISTS subscriber (
    id INTEGER PRIMARY KEY CHECK (id = 1), url TEXT NOT NULL, secret TEXT NOT NULL, seconds REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS plan (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, seconds REAL NOT NULL);
CREATE TABLE IF NOT EXISTS callback (
    id INTEGER PRIMARY KEY AUTOINCREMENT, message_id TEXT NOT NULL, plan TEXT NOT NULL, body TEXT NOT NULL, url TEXT NOT NULL,
    due REAL NOT NULL, attempts INTEGER NOT NULL DEFAULT 0, status INTEGER, ended INTEGER NOT NULL DEFAULT 0
);
"""
PLANS = {
    "once": "one callback",
    "twice": "the same callback twice",
    "out_of_order": "done, and after that still processing",
    "early": "the callback comes before the answer to the request",
    "wrong_signature": "signed with another secret",
    "old": "signed an hour ago",
    "never": "done, and nobody is told",
    "rejected": "accepted, then not done",
    "rejected_after": "done, and after that rejected",
    "differs": "tells another amount than it was asked to write",
    "unknown_key": "names a key that nobody has sent",
}
MOST_ATTEMPTS = 8
ROUND_SECONDS = 0.05
ANSWER_SECONDS = 10.0


@dataclass(frozen=True)
class Plan:
    """What comes of the next accepted write, and how long after."""

    name: str = "once"
    seconds: float = 0.0

    def messages(self, told: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
        """What is told, in order: each content with its message id ("" for a new one)."""
        message_id = f"msg_{secrets.token_hex(8)}"
        match self.name:
            case "never":
                return
            case "unknown_key":
                yield {**told, "operation_key": "nobody-has-sent-this"}, message_id
            case "differs":
                altered = {name: _another(value) for name, value in told["fields"].items()}
                yield {**told, "fields": altered}, message_id
            case _:
                yield told, message_id
        if self.name == "twice":
            yield told, message_id
        if self.name in ("out_of_order", "rejected_after"):
            status = "processing" if self.name == "out_of_order" else "rejected"
            yield {**told, "status": status}, f"msg_{secrets.token_hex(8)}"


class Caller:
    """The thread that sends, and what is to be sent."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._before: Callable[[], None] = lambda: None
        self._sending = threading.Lock()

    def before_each_round(self, work: Callable[[], None]) -> None:
        self._before = work

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def subscribe(self, asked: dict[str, Any]) -> None:
        """Where callbacks go, the secret that signs them, and how long after acceptance. Raises `Refused`."""
        url, secret, seconds = asked.get("url"), asked.get("secret"), asked.get("seconds", 0.2)
        if not (isinstance(url, str) and url.startswith("http") and isinstance(secret, str)):
            raise Refused(problem(422, "invalid_subscriber", "url and secret are strings."))
        with self._database.transaction() as transaction:
            transaction.execute(
                "INSERT OR REPLACE INTO subscriber (id, url, secret, seconds) VALUES (1, ?, ?, ?)",
                (url, secret, float(seconds)),
            )

    def plan(self, asked: dict[str, Any]) -> None:
        """Add a plan for the next accepted write that has none. Raises `Refused`."""
        if asked.get("name") not in PLANS:
            raise Refused(problem(422, "invalid_plan", f"name: one of {', '.join(PLANS)}."))
        with self._database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO plan (name, seconds) VALUES (?, ?)",
                (asked["name"], float(asked.get("seconds", 0.2))),
            )

    def next_plan(self) -> Plan:
        with self._database.transaction() as transaction:
            row = transaction.execute("SELECT * FROM plan ORDER BY id LIMIT 1").fetchone()
            if row is not None:
                transaction.execute("DELETE FROM plan WHERE id = ?", (row["id"],))
                return Plan(row["name"], row["seconds"])
            subscriber = transaction.execute("SELECT seconds FROM subscriber").fetchone()
        return Plan(seconds=subscriber["seconds"] if subscriber else 0.2)

    def queue(
        self, transaction: Transaction, content: dict[str, Any], message_id: str, plan: str, url: str
    ) -> None:
        """`url`: the request's own address for it, or "" for the subscriber's."""
        transaction.execute(
            "INSERT INTO callback (message_id, plan, body, url, due) VALUES (?, ?, ?, ?, ?)",
            (message_id, plan, json.dumps(content), url, time.time()),
        )

    def sent(self) -> list[dict[str, Any]]:
        """Every callback, oldest first, with how it was answered."""
        return [dict(row) for row in self._database.rows("SELECT * FROM callback ORDER BY id")]

    def send_what_is_due(self) -> None:
        with self._sending:
            subscriber = self._database.rows("SELECT * FROM subscriber")
            if not subscriber:
                return
            due = "SELECT * FROM callback WHERE ended = 0 AND due <= ? ORDER BY id"
            for row in self._database.rows(due, time.time()):
                self._send(row, subscriber[0])

    def _run(self) -> None:
        while True:
            self._before()
            self.send_what_is_due()
            time.sleep(ROUND_SECONDS)

    def _send(self, row: sqlite3.Row, subscriber: sqlite3.Row) -> None:
        status = _post(row["url"] or subscriber["url"], row["body"], _headers(row, subscriber["secret"]))
        attempts = row["attempts"] + 1
        again = (status is None or status == 429 or status >= 500) and attempts < MOST_ATTEMPTS
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE callback SET attempts = ?, status = ?, ended = ?, due = ? WHERE id = ?",
                (attempts, status, int(not again), time.time() + 0.1 * 2**attempts, row["id"]),
            )


def _headers(row: sqlite3.Row, secret: str) -> dict[str, str]:
    at = datetime.now(UTC) - (timedelta(hours=1) if row["plan"] == "old" else timedelta(0))
    if row["plan"] == "wrong_signature":
        secret = "whsec_" + "QW5vdGhlciBzZWNyZXQsIHdoaWNoIG5vYm9keSBnYXZlIHVz"
    return {
        "Content-Type": "application/json",
        "webhook-id": row["message_id"],
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(row["message_id"], at, row["body"]),
    }


def _post(url: str, body: str, headers: dict[str, str]) -> int | None:
    request = Request(url, data=body.encode(), headers=headers, method="POST")  # noqa: S310  (the subscriber's)
    try:
        with build_opener(ProxyHandler({})).open(request, timeout=ANSWER_SECONDS) as answer:
            return int(answer.status)
    except HTTPError as refused:
        with refused:
            return refused.code
    except (URLError, OSError):
        return None


def _another(value: Any) -> Any:
    return f"1{value}" if isinstance(value, str) else value
