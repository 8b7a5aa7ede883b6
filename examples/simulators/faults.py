"""The faults that wait for the next matching request of the ERP or the bureau, and what each does to it.

`applies` is whether the change is made all the same; the parameter `applied` overrides it for faults that answer.
A fault without `method` waits for a write (PUT or POST), so that a read before it does not use it up.
"""

import json
import re
import sqlite3
import time
from dataclasses import dataclass
from typing import Any

from examples.simulators.database import Database
from examples.simulators.wire import Answer, Hangup, Incoming, Refused, Reply, json_answer, problem

SCHEMA = """
CREATE TABLE IF NOT EXISTS fault (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, contract TEXT, method TEXT, path TEXT,
    params TEXT NOT NULL, remaining INTEGER NOT NULL, created_at TEXT NOT NULL
);
"""

# kind: (whether the change is made, what the client sees)
KINDS = {
    "drop_after_commit": (True, "applied, then the connection closes without an answer"),
    "drop_before_read": (False, "connection reset before the body is read"),
    "reset": (False, "connection reset after the body is read"),
    "status_503": (False, "503"),
    "status_429": (False, "429 with Retry-After"),
    "status_500": (False, "500"),
    "slow": (True, "applied at once, answered late"),
    "slow_before": (True, "waits, then applies and answers"),
    "malformed": (True, "applied, then 200 with JSON cut in half"),
    "html_200": (False, "200 with a sign-in page"),
    "empty_201": (True, "applied, then 201 without a body"),
    "accepted_202": (True, "applied, but only 202 is answered"),
    "differs": (True, "applied as asked, answered with one value changed"),
}
METHODS = ("write", "any", "GET", "PUT", "POST")
FIXED = ("drop_after_commit", "drop_before_read", "reset", "slow", "slow_before", "differs")
SIGN_IN_PAGE = (
    b"<!doctype html><title>Sign in</title><h1>Sign in to Astrel</h1><form><input name=user></form>\n"
)


@dataclass(frozen=True)
class Fault:
    id: int
    kind: str
    contract: str | None
    method: str
    path: str | None
    params: dict[str, Any]
    remaining: int

    @property
    def applies(self) -> bool:
        return bool(self.params.get("applied", KINDS[self.kind][0]))

    def matches(self, request: Incoming) -> bool:
        of_method = self.method in ("any", request.method) or (
            self.method == "write" and request.method in ("PUT", "POST")
        )
        of_contract = self.contract in (None, request.segments[0])
        return of_method and of_contract and request.path.startswith(self.path or "/")

    def pause_before_apply(self) -> None:
        if self.kind == "slow_before":
            time.sleep(self.params["seconds"])

    def distort(self, answer: Answer | None) -> Reply:
        """What leaves instead of `answer`; None stands for a change that was not made."""
        match self.kind:
            case "drop_after_commit":
                return Hangup()
            case "drop_before_read" | "reset":
                return Hangup(reset=True)
            case "status_503":
                return problem(503, "unavailable", "Try later.")
            case "status_429":
                return problem(429, "too_many_requests", "Try later.", Retry_After=self.params["retry_after"])
            case "status_500":
                return problem(500, "internal_error", "Something went wrong.")
            case "malformed":
                whole = answer.body if answer else b'{"id": "R-0000'
                return Answer(200, whole[: len(whole) // 2])
            case "html_200":
                return Answer(200, SIGN_IN_PAGE, "text/html; charset=utf-8")
            case "empty_201":
                return Answer(201)
            case "accepted_202":
                return json_answer(202, {"status": "accepted"})
            case "slow":
                time.sleep(self.params["seconds"])
            case "differs" if answer and answer.status < 300:
                return self._altered(answer)
        return answer or problem(500, "internal_error", "Something went wrong.")

    def _altered(self, answer: Answer) -> Answer:
        content = json.loads(answer.body)
        fields: dict[str, Any] = content.get("fields", {})
        name = self.params.get("field") or _field_worth_altering(fields)
        fields[name] = self.params.get("value", _another_value(fields.get(name)))
        return json_answer(answer.status, {**content, "fields": fields}, **dict(answer.headers))


class FaultQueue:
    """`contracts`: the first segments of a path that a fault may name apart from its path."""

    def __init__(self, database: Database, contracts: tuple[str, ...] = ()) -> None:
        self._database = database
        self._contracts = contracts

    def pending(self) -> list[Fault]:
        return [_fault(row) for row in self._database.rows("SELECT * FROM fault ORDER BY id")]

    def take(self, request: Incoming) -> Fault | None:
        """The first fault that matches; it is gone once it has struck as often as asked."""
        with self._database.transaction() as transaction:
            rows = transaction.execute("SELECT * FROM fault ORDER BY id").fetchall()
            fault = next((found for row in rows if (found := _fault(row)).matches(request)), None)
            if fault is not None:
                transaction.execute("UPDATE fault SET remaining = remaining - 1 WHERE id = ?", (fault.id,))
                transaction.execute("DELETE FROM fault WHERE remaining <= 0")
        return fault

    def add(self, asked: dict[str, Any], now: str) -> Fault:
        """Raises `Refused` with 422 for anything a fault cannot be."""
        kind, params = asked.get("kind"), _params(asked)
        if kind not in KINDS:
            raise _invalid("kind", f"one of {', '.join(KINDS)}")
        if "applied" in params and kind in FIXED:
            raise _invalid("applied", f"{kind} has its own")
        contract = _choice(asked, "contract", self._contracts)
        method = _choice(asked, "method", METHODS) or "write"
        path, times = asked.get("path") or None, asked.get("times", 1)
        if not (path is None or (isinstance(path, str) and path.startswith("/") and path.isascii())):
            raise _invalid("path", "a prefix that begins with /")
        if not isinstance(times, int) or isinstance(times, bool) or not 1 <= times <= 100_000:
            raise _invalid("times", "a whole number from 1 to 100000")
        with self._database.transaction() as transaction:
            number = transaction.execute(
                "INSERT INTO fault (kind, contract, method, path, params, remaining, created_at)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (kind, contract, method, path, json.dumps(params), times, now),
            ).lastrowid
        return Fault(number or 0, str(kind), contract, method, path, params, times)

    def clear(self) -> None:
        with self._database.transaction() as transaction:
            transaction.execute("DELETE FROM fault")


def fault_as_json(fault: Fault) -> dict[str, Any]:
    return {
        "id": fault.id,
        "kind": fault.kind,
        "contract": fault.contract,
        "method": fault.method,
        "path": fault.path,
        "remaining": fault.remaining,
        **fault.params,
    }


def _fault(row: sqlite3.Row) -> Fault:
    params = json.loads(row["params"])
    return Fault(
        row["id"], row["kind"], row["contract"], row["method"], row["path"], params, row["remaining"]
    )


def _params(asked: dict[str, Any]) -> dict[str, Any]:
    seconds, retry_after = asked.get("seconds", 2.0), str(asked.get("retry_after", "2"))
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
        raise _invalid("seconds", "a number from 0 to 3600")
    if not re.fullmatch(r"[ -~]{1,64}", retry_after):
        raise _invalid("retry_after", "seconds or an HTTP date")
    params: dict[str, Any] = {"seconds": seconds, "retry_after": retry_after}
    if "applied" in asked:
        if not isinstance(asked["applied"], bool):
            raise _invalid("applied", "true or false")
        params["applied"] = asked["applied"]
    for name in ("field", "value"):
        if name in asked:
            if not isinstance(asked[name], str):
                raise _invalid(name, "a string")
            params[name] = asked[name]
    return params


def _choice(asked: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str | None:
    value = asked.get(name) or None
    if value is not None and value not in allowed:
        raise _invalid(name, f"one of {', '.join(allowed)}")
    return value


def _invalid(name: str, expected: str) -> Refused:
    return Refused(problem(422, "invalid_fault", f"{name}: {expected}."))


def _field_worth_altering(fields: dict[str, Any]) -> str:
    return next(
        (name for name in fields if name == "amount" or name.endswith(("_limit", "_amount"))), ""
    ) or next((name for name, value in fields.items() if isinstance(value, str)), "name")


def _another_value(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[0-9]{2,15}\.[0-9]{2}", value):
        return value[1] + value[0] + value[2:] if value[0] != value[1] else "1" + value  # two digits swapped
    return f"{value} (altered)"
