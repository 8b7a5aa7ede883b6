"""The requests page: what was asked, and what was answered."""

from typing import Any

from examples.simulators.faults import KINDS, Fault
from examples.simulators.page import page, table, text

SHOWN = 200


def requests_page(*, requests: list[dict[str, Any]], faults: list[Fault]) -> str:
    """Requests newest first."""
    body = _pending(faults) + _requests(requests[:SHOWN])
    return page(title="Company bureau", lead=f"{len(requests)} requests.", body=body)


def _requests(requests: list[dict[str, Any]]) -> str:
    rows = [
        [
            text(request["id"]),
            f'<time class="nowrap" datetime="{text(request["at"])}">{text(request["at"][11:19])}</time>',
            f"<code>{text(request['method'])} {text(request['path'])}</code>",
            text(request["fault"] or "none"),
            _outcome(request),
        ]
        for request in requests
    ]
    heads = ["No.", "Received", "Request", "Fault", "Answer"]
    return table(
        caption="Requests and what was answered", heads=heads, rows=rows, empty="No request has come yet."
    )


def _pending(faults: list[Fault]) -> str:
    rows = [
        [
            f'{text(fault.kind)}<br><small class="quiet">{text(KINDS[fault.kind][1])}</small>',
            text(fault.method),
            f"<code>{text(fault.path or 'any')}</code>",
            text(fault.remaining),
        ]
        for fault in faults
    ]
    heads = ["Fault", "Method", "Path begins with", "Times left"]
    return table(
        caption="Faults that wait", heads=heads, rows=rows, empty="None: requests are served as they should."
    )


def _outcome(request: dict[str, Any]) -> str:
    if request["outcome"] is None:
        return '<span class="wait">not answered yet</span>'
    if request["outcome"] != "answered":
        return f'<span class="doubt">{text(request["outcome"])}, no answer</span>'
    return f'<span class="{"ok" if request["status"] < 300 else "fail"}">answered {text(request["status"])}</span>'
