"""Rules: which call gets which answer. Rules set at run time come before the file's; the first that matches wins.

{"match": {"task"|"contains"|"model"|"script"|"user": text, "header": {"name": …, "value": …}},
 "answer": text or JSON, or "function": name, "usage": {…}, "latency": seconds,
 "fault": kind or {"kind": …, "seconds": …, "retry_after": …}, "times": how often, then it falls through}
An answer's text may hold {last_user} and {last_user_json}, the latter escaped for use inside a JSON string.
"""

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from examples.simulators.database import Database, Transaction
from examples.simulators.provider.fitting import fitting
from examples.simulators.provider.functions import FUNCTIONS, as_json, task_of
from examples.simulators.wire import Refused, problem

SCHEMA = """
CREATE TABLE IF NOT EXISTS rule (
    id INTEGER PRIMARY KEY AUTOINCREMENT, source TEXT NOT NULL, content TEXT NOT NULL, used INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE IF NOT EXISTS script_file (only INTEGER PRIMARY KEY CHECK (only = 1), sha256 TEXT NOT NULL);
"""
FAULTS = ("timeout", "status_429", "status_500", "cut_json", "drop")
TEXT_MATCHES = ("task", "contains", "model", "script", "user")
KEYS = ("match", "answer", "function", "usage", "latency", "fault", "times")
ECHO = '{"answer":"{last_user_json}"}'
DEFAULT_RULE: dict[str, Any] = {"match": {}, "answer": ECHO}
"""The echo is for questions without a schema; where one was asked for, the answer fits it."""


@dataclass(frozen=True)
class Question:
    model: str
    last_user: str
    script: str | None
    user: str | None
    headers: dict[str, str]
    schema: dict[str, Any] | None = None


@dataclass(frozen=True)
class Rule:
    id: int
    source: str
    content: dict[str, Any]
    used: int

    @property
    def name(self) -> str:
        matched = " ".join(f"{key}={value}" for key, value in self.content.get("match", {}).items())
        return f"{self.source}: {matched or 'anything'}"

    @property
    def used_up(self) -> bool:
        times = self.content.get("times")
        return times is not None and self.used >= times

    @property
    def latency(self) -> float:
        return float(self.content.get("latency", 0))

    @property
    def fault(self) -> dict[str, Any]:
        asked = self.content.get("fault") or {}
        return {"kind": asked} if isinstance(asked, str) else asked

    def matches(self, question: Question) -> bool:
        match: dict[str, Any] = self.content.get("match", {})
        task, header = str(match.get("task", "")).split(), match.get("header")
        return (
            task_of(question.last_user)[: len(task)] == task
            and str(match.get("contains", "")) in question.last_user
            and all(
                match.get(name) in (None, getattr(question, name)) for name in ("model", "script", "user")
            )
            and (header is None or question.headers.get(header["name"].lower()) == header["value"])
        )

    def answer_to(self, question: Question) -> str:
        if "function" in self.content:
            return as_json(FUNCTIONS[self.content["function"]](question.last_user))
        if self.source == "default" and question.schema is not None:
            return as_json(fitting(question.schema, question.last_user))
        answer = self.content.get("answer", "")
        if not isinstance(answer, str):
            return as_json(answer)
        quoted = json.dumps(question.last_user, ensure_ascii=False)[1:-1]
        filled = {"{last_user}": question.last_user, "{last_user_json}": quoted}
        # In one pass, so that a marker inside the user's message is not filled again.
        return re.sub(r"\{last_user(_json)?\}", lambda found: filled[found[0]], answer)


class Script:
    def __init__(self, database: Database, file_rules: bytes) -> None:
        """The file's counters survive a restart, unless the file is another one."""
        self._database = database
        digest = sha256(file_rules).hexdigest()
        rules = checked_rules(json.loads(file_rules))
        with database.transaction() as transaction:
            known = transaction.execute("SELECT sha256 FROM script_file").fetchone()
            if known is None or known["sha256"] != digest:
                _replace(transaction, "file", rules)
                transaction.execute(
                    "INSERT OR REPLACE INTO script_file (only, sha256) VALUES (1, ?)", (digest,)
                )

    def rules(self) -> list[Rule]:
        return [*_stored(self._database.rows(ORDERED)), Rule(0, "default", DEFAULT_RULE, 0)]

    def set_rules(self, rules: list[dict[str, Any]]) -> None:
        """Replace the rules set at run time; the file's stay behind them."""
        with self._database.transaction() as transaction:
            _replace(transaction, "run time", rules)

    def take(self, question: Question) -> Rule:
        """The first rule that matches and is not used up; it counts as used from here on, whatever comes of it."""
        with self._database.transaction() as transaction:
            rules = [*_stored(transaction.execute(ORDERED).fetchall()), Rule(0, "default", DEFAULT_RULE, 0)]
            rule = next(rule for rule in rules if not rule.used_up and rule.matches(question))
            transaction.execute("UPDATE rule SET used = used + 1 WHERE id = ?", (rule.id,))
        return rule


ORDERED = "SELECT * FROM rule ORDER BY source = 'file', id"


def checked_rules(content: object) -> list[dict[str, Any]]:
    """`{"rules": [...]}` or the bare list. Raises `Refused` with 422 and names the rule that is wrong."""
    rules = content.get("rules") if isinstance(content, dict) else content
    if not isinstance(rules, list):
        raise Refused(problem(422, "invalid_script", "rules: a list."))
    for position, rule in enumerate(rules):
        if wrong := _what_is_wrong(rule):
            raise Refused(problem(422, "invalid_script", f"rules[{position}]: {wrong}."))
    return rules


def _what_is_wrong(rule: object) -> str | None:
    if not isinstance(rule, dict):
        return "not an object"
    if unknown := set(rule) - set(KEYS):
        return f"unknown key {sorted(unknown)[0]}"
    match, times, fault = rule.get("match", {}), rule.get("times"), rule.get("fault")
    if not isinstance(match, dict) or set(match) - {*TEXT_MATCHES, "header"}:
        return f"match takes {', '.join(TEXT_MATCHES)} and header"
    if any(not isinstance(match[name], str) for name in TEXT_MATCHES if name in match):
        return "match compares with text"
    if "header" in match and not _is_header(match["header"]):
        return "match.header has a name and a value"
    if "function" in rule and rule["function"] not in FUNCTIONS:
        return f"function is one of {', '.join(FUNCTIONS)}"
    if times is not None and (not isinstance(times, int) or isinstance(times, bool) or times < 1):
        return "times is a whole number from 1"
    if not _is_seconds(rule.get("latency", 0)):
        return "latency is seconds from 0 to 3600"
    return _what_is_wrong_with_usage(rule.get("usage", {})) or (
        _what_is_wrong_with_fault(fault) if fault else None
    )


def _what_is_wrong_with_usage(usage: object) -> str | None:
    if not isinstance(usage, dict) or set(usage) - {"prompt_tokens", "completion_tokens"}:
        return "usage takes prompt_tokens and completion_tokens"
    whole = all(
        isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in usage.values()
    )
    return None if whole else "tokens are whole numbers"


def _what_is_wrong_with_fault(fault: object) -> str | None:
    described = {"kind": fault} if isinstance(fault, str) else fault
    if not isinstance(described, dict) or described.get("kind") not in FAULTS:
        return f"fault is one of {', '.join(FAULTS)}"
    if not _is_seconds(described.get("seconds", 0)):
        return "fault.seconds is seconds from 0 to 3600"
    printable = re.fullmatch(r"[ -~]{1,64}", str(described.get("retry_after", "2")))
    return None if printable else "fault.retry_after is seconds or an HTTP date"


def _is_header(header: object) -> bool:
    return (
        isinstance(header, dict)
        and set(header) == {"name", "value"}
        and all(isinstance(v, str) for v in header.values())
    )


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 3600


def _stored(rows: list[Any]) -> list[Rule]:
    return [Rule(row["id"], row["source"], json.loads(row["content"]), row["used"]) for row in rows]


def _replace(transaction: Transaction, source: str, rules: list[dict[str, Any]]) -> None:
    transaction.execute("DELETE FROM rule WHERE source = ?", (source,))
    for rule in rules:
        transaction.execute("INSERT INTO rule (source, content) VALUES (?, ?)", (source, json.dumps(rule)))
