"""The calls page: what was asked and answered, and the script in force."""

from typing import Any

from examples.simulators.page import page, table, text
from examples.simulators.provider.functions import as_json
from examples.simulators.provider.script import Rule

SHOWN = 200


def calls_page(*, calls: list[dict[str, Any]], rules: list[Rule]) -> str:
    """Calls newest first; rules in the order in which they are tried."""
    body = _calls(calls[:SHOWN]) + _rules(rules)
    return page(title="Model provider", lead=f"{len(calls)} calls.", body=body)


def _calls(calls: list[dict[str, Any]]) -> str:
    rows = [
        [
            text(call["id"]),
            f'<time class="nowrap" datetime="{text(call["started_at"])}">{text(call["started_at"][11:19])}</time>',
            text(call["model"]),
            f'<div class="said">{text(call["last_user"][:240])}</div>',
            text(call["rule"]),
            _outcome(call),
            f'<div class="said">{text((call["answer"] or "")[:240])}</div>',
        ]
        for call in calls
    ]
    heads = ["No.", "Started", "Model", "Last user message", "Rule", "Outcome", "Answer"]
    return table(caption="Calls", heads=heads, rows=rows, empty="No call has come yet.")


def _outcome(call: dict[str, Any]) -> str:
    if call["outcome"] is None:
        return '<span class="wait">at work</span>'
    return f'<span class="{"ok" if call["outcome"] == "answered" else "fail"}">{text(call["outcome"])}</span>'


def _rules(rules: list[Rule]) -> str:
    rows = [
        [text(rule.name), _times(rule), f"<code>{text(as_json(rule.content)[:600])}</code>"] for rule in rules
    ]
    return table(
        caption="The script, in the order it is tried", heads=["Rule", "Used", "Content"], rows=rows, empty=""
    )


def _times(rule: Rule) -> str:
    if rule.source == "default":
        return '<span class="quiet">always there</span>'
    return text(f"{rule.used} of {rule.content['times']}" if "times" in rule.content else rule.used)
