"""Scripted answers that depend on the task line, such as `task: write-rule 14`. The same question, the same bytes."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

POLICY: dict[str, Any] = json.loads((Path(__file__).parent / "expense_rules.json").read_text("utf-8"))
TRADE: dict[str, Any] = json.loads((Path(__file__).parent / "trade.json").read_text("utf-8"))
MARKER = "task:"


def task_of(last_user: str) -> list[str]:
    """The words of the marker line: `task: write-rule 14` gives `["write-rule", "14"]`; without a marker, nothing."""
    first_line = last_user.lstrip().split("\n", 1)[0].strip()
    return first_line[len(MARKER) :].split() if first_line.lower().startswith(MARKER) else []


def parse_policy(last_user: str) -> object:
    return {"title": POLICY["title"], "rules": [rule["text"] for rule in POLICY["rules"]]}


def write_rule(last_user: str) -> object:
    number = _number(last_user)
    rule = _rule(number)
    return {
        "number": number,
        "name": rule["name"],
        "condition": rule["condition"],
        "severity": rule["severity"],
    }


def write_test(last_user: str) -> object:
    number = _number(last_user)
    rule = _rule(number)
    return {"rule": number, "passes": rule["passes"], "fails": rule["fails"]}


def read_vendor(last_user: str) -> object:
    """A vendor as a clerk typed it, `NAME, legal form` and `city`, each on a line between <<< and >>>."""
    found = re.search(r"<<<\s*(.*?)\s*>>>", last_user, re.DOTALL)
    name, _, city = (found.group(1) if found else "").partition("\n")
    words = [w for w in re.split(r"[\s,]+", name) if w and w.casefold() not in TRADE["legal_forms"]]
    trade = words[-1].casefold() if words else ""
    return {
        "name": " ".join(w.capitalize() for w in words),
        "country": TRADE["cities"].get(city.strip().casefold(), ""),
        "industry": TRADE["industries"].get(trade, "Other"),
    }


def summarise(last_user: str) -> object:
    """The first sentences of the content, up to a length."""
    sentences = re.findall(r"[^.!?]+[.!?]", " ".join(_content(last_user).split()))
    said = ""
    for sentence in sentences or [_content(last_user)]:
        if len(said) + len(sentence) > 400:
            break
        said += sentence
    return {"summary": said.strip() or "Nothing is said."}


def extract_fields(last_user: str) -> object:
    """What stands behind a label, such as `Supplier: Fennmark Castings`; null for what the content does not say."""
    content = _content(last_user)
    found = {
        name: re.search(pattern, content, re.IGNORECASE | re.MULTILINE) for name, pattern in LABELS.items()
    }
    fields: dict[str, Any] = {
        name: match.group(1).strip() if match else None for name, match in found.items()
    }
    if fields["total"]:
        fields["total"] = fields["total"].replace(",", "")
    return fields


LABELS = {
    "supplier": r"Supplier:[ \t]*([^\n;]+)",
    "subject": r"Subject:[ \t]*([^\n;]+)",
    "signed_on": r"Signed on:[ \t]*([0-9]{4}-[0-9]{2}-[0-9]{2})",
    "total": r"Total:[ \t]*([0-9][0-9,]*(?:\.[0-9]{2})?)",
    "currency": r"Total:[ \t]*[0-9.,]+[ \t]*([A-Z]{3})",
}


FUNCTIONS: dict[str, Callable[[str], object]] = {
    "extract-fields": extract_fields,
    "parse-policy": parse_policy,
    "summarise": summarise,
    "write-rule": write_rule,
    "write-test": write_test,
    "read-vendor": read_vendor,
}


def as_json(content: object) -> str:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":"))


def _content(last_user: str) -> str:
    """What stands between <<< and >>>."""
    found = re.search(r"<<<\s*(.*?)\s*>>>", last_user, re.DOTALL)
    return found.group(1) if found else ""


def _number(last_user: str) -> int:
    words = task_of(last_user)
    return int(words[1]) if len(words) > 1 and words[1].isdecimal() and len(words[1]) < 7 else 0


def _rule(number: int) -> dict[str, Any]:
    """Beyond the policy's own rules, one is made up so that a longer policy can be played too."""
    if 1 <= number <= len(POLICY["rules"]):
        found: dict[str, Any] = POLICY["rules"][number - 1]
        return found
    name = f"rule_{number}"
    return {
        "name": name,
        "condition": f"{name} == true",
        "severity": "flag",
        "passes": {name: True},
        "fails": {name: False},
    }
