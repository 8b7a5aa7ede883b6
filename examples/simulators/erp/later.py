"""The contract `later`: a write is accepted at once, done some time after, and told by a signed callback.

What was accepted is a row before it is answered, so a process that ends in between does it when it comes back.
"""

import json
import sqlite3
import time
from typing import Any

from examples.simulators.database import Database
from examples.simulators.erp.calling import Caller, Plan
from examples.simulators.erp.ledger import Write, apply_write
from examples.simulators.wire import Answer, json_answer, problem

SCHEMA = """
CREATE TABLE IF NOT EXISTS accepted (
    id INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT NOT NULL UNIQUE, fingerprint TEXT NOT NULL, method TEXT NOT NULL,
    path TEXT NOT NULL, kind TEXT NOT NULL, record TEXT NOT NULL, body BLOB NOT NULL, plan TEXT NOT NULL, url TEXT NOT NULL,
    due REAL NOT NULL, status TEXT NOT NULL DEFAULT 'processing'
);
"""


class Later:
    def __init__(self, database: Database, caller: Caller) -> None:
        self._database = database
        self._caller = caller
        caller.before_each_round(self._do_what_is_due)

    def accept(self, write: Write, fingerprint: str, url: str) -> Answer:
        """202, the same for a repeat under the same key; 422 for another request under it. `url`: where it is told."""
        plan = self._caller.next_plan()
        with self._database.transaction() as transaction:
            known = transaction.execute(
                "SELECT * FROM accepted WHERE key = ?", (write.operation_key,)
            ).fetchone()
            if known is None:
                transaction.execute(
                    "INSERT INTO accepted (key, fingerprint, method, path, kind, record, body, plan, url, due)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        write.operation_key,
                        fingerprint,
                        write.method,
                        write.path,
                        write.kind,
                        write.record,
                        write.body,
                        plan.name,
                        url,
                        time.time() + plan.seconds,
                    ),
                )
        row = self._row(write.operation_key or "")
        if row["fingerprint"] != fingerprint:
            return problem(422, "key_reused", "This key was used with another request.")
        if known is None and plan.name == "early":
            self._do(row)
            self._caller.send_what_is_due()
        headers = {} if known is None else {"Idempotent_Replayed": "true"}
        return json_answer(202, {"id": _id(row), "status": "accepted"}, **headers)

    def look_up(self, key: str) -> Answer:
        found = self._database.rows("SELECT * FROM accepted WHERE key = ?", key)
        if not found:
            return problem(404, "no_such_operation", "Nothing was accepted under this key.")
        return json_answer(200, _told(found[0]))

    def _do_what_is_due(self) -> None:
        due = "SELECT * FROM accepted WHERE status = 'processing' AND due <= ? ORDER BY id"
        for row in self._database.rows(due, time.time()):
            self._do(row)

    def _do(self, row: sqlite3.Row) -> None:
        """Apply it, or refuse to, and queue what is told of it: in one transaction, once."""
        status = "rejected" if row["plan"] == "rejected" else "done"
        with self._database.transaction() as transaction:
            changed = transaction.execute(
                "UPDATE accepted SET status = ? WHERE id = ? AND status = 'processing'", (status, row["id"])
            ).rowcount
            if not changed:
                return
            if status == "done":
                apply_write(transaction, _write(row))
            told = {**_told(row), "status": status}
            for content, message_id in Plan(row["plan"]).messages(told):
                self._caller.queue(transaction, content, message_id, row["plan"], row["url"])

    def _row(self, key: str) -> sqlite3.Row:
        return self._database.rows("SELECT * FROM accepted WHERE key = ?", key)[0]


def _id(row: sqlite3.Row) -> str:
    return f"A-{row['id']:06d}"


def _told(row: sqlite3.Row) -> dict[str, Any]:
    told = {"id": _id(row), "operation_key": row["key"], "status": row["status"], "record": row["record"]}
    return {**told, "fields": json.loads(row["body"])}


def _write(row: sqlite3.Row) -> Write:
    fields = json.loads(row["body"])
    return Write(
        "later", row["key"], row["method"], row["path"], row["kind"], row["record"], row["body"], fields
    )
