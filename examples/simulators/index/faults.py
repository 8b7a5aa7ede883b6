"""Faults that wait for the next matching request, and the log of every request that came."""

import time
from dataclasses import dataclass
from typing import Any

from examples.simulators.database import Database, timestamp
from examples.simulators.wire import Hangup, Incoming, Refused, Reply, problem

SCHEMA = """
CREATE TABLE IF NOT EXISTS fault (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, method TEXT NOT NULL, contains TEXT NOT NULL,
    seconds REAL NOT NULL, remaining INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS request (
    id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, method TEXT NOT NULL, path TEXT NOT NULL, key TEXT,
    fault TEXT, outcome TEXT, status INTEGER
);
"""
KINDS = {
    "status_503": "503, nothing is done",
    "status_403": "403, nothing is done",
    "drop_after": "done, then the connection closes without an answer",
    "slow_after": "done at once, answered after some seconds",
}
METHODS = ("any", "GET", "PUT", "POST", "DELETE")


@dataclass(frozen=True)
class Fault:
    kind: str
    seconds: float

    @property
    def applies(self) -> bool:
        """Whether what was asked is done all the same."""
        return self.kind in ("drop_after", "slow_after")

    def distort(self, reply: Reply | None) -> Reply:
        """What leaves instead of `reply`; None stands for what was not done."""
        match self.kind:
            case "status_403":
                return problem(403, "forbidden", "This may not be changed.")
            case "drop_after":
                return Hangup()
            case "slow_after":
                time.sleep(self.seconds)
        return reply or problem(503, "unavailable", "Try later.")


class Watch:
    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, request: Incoming) -> Fault | None:
        """The first fault that matches; it is gone once it has struck as often as asked."""
        with self._database.transaction() as transaction:
            for row in transaction.execute("SELECT * FROM fault ORDER BY id").fetchall():
                if row["method"] in ("any", request.method) and row["contains"] in request.path:
                    transaction.execute(
                        "UPDATE fault SET remaining = remaining - 1 WHERE id = ?", (row["id"],)
                    )
                    transaction.execute("DELETE FROM fault WHERE remaining <= 0")
                    return Fault(row["kind"], row["seconds"])
        return None

    def add(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Raises `Refused` with 422 for anything a fault cannot be."""
        fault = {"kind": "", "method": "any", "contains": "", "seconds": 2, "times": 1, **asked}
        if strange := set(fault) - {"kind", "method", "contains", "seconds", "times"}:
            raise _invalid(f"unknown key {sorted(strange)[0]}")
        if fault["kind"] not in KINDS:
            raise _invalid(f"kind is one of {', '.join(KINDS)}")
        if fault["method"] not in METHODS or not isinstance(fault["contains"], str):
            raise _invalid(f"method is one of {', '.join(METHODS)}; contains is a part of the path")
        if not _is_number(fault["seconds"], 0, 3600) or not _is_number(fault["times"], 1, 1000):
            raise _invalid("seconds are from 0 to 3600, times from 1 to 1000")
        with self._database.transaction() as transaction:
            transaction.execute(
                "INSERT INTO fault (kind, method, contains, seconds, remaining) VALUES (?, ?, ?, ?, ?)",
                (fault["kind"], fault["method"], fault["contains"], fault["seconds"], int(fault["times"])),
            )
        return fault

    def pending(self) -> list[dict[str, Any]]:
        return [dict(row) for row in self._database.rows("SELECT * FROM fault ORDER BY id")]

    def clear(self) -> None:
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM fault")

    def begin(self, request: Incoming, fault: Fault | None) -> int:
        """Logged before it is acted on."""
        with self._database.transaction() as transaction:
            number = transaction.execute(
                "INSERT INTO request (at, method, path, key, fault) VALUES (?, ?, ?, ?, ?)",
                (
                    timestamp(),
                    request.method,
                    request.path,
                    request.header("X-Request-Key"),
                    fault.kind if fault else None,
                ),
            ).lastrowid
        return number or 0

    def end(self, number: int, reply: Reply) -> None:
        outcome, status = ("dropped", None) if isinstance(reply, Hangup) else ("answered", reply.status)
        with self._database.transaction() as transaction:
            transaction.execute(
                "UPDATE request SET outcome = ?, status = ? WHERE id = ?", (outcome, status, number)
            )

    def requests(self) -> list[dict[str, Any]]:
        """Oldest first. Without an outcome: still at work, or the process ended."""
        return [dict(row) for row in self._database.rows("SELECT * FROM request ORDER BY id")]


def _invalid(why: str) -> Refused:
    return Refused(problem(422, "invalid_fault", f"{why}."))


def _is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
