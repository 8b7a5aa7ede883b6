"""The effects page: what the receiver really did, what it answered, and the form for the next fault."""

from typing import Any

from examples.simulators.erp.contracts import CONTRACTS
from examples.simulators.faults import KINDS, METHODS, Fault
from examples.simulators.page import page, table, text

SHOWN = 200


def effects_page(
    *, effects: list[dict[str, Any]], requests: list[dict[str, Any]], faults: list[Fault], refused: str
) -> str:
    """Both lists newest first. `refused` says why the form that was just posted was not accepted."""
    lead = f"{len(effects)} effects from {len(requests)} requests."
    body = _effects(effects[:SHOWN]) + _panel(refused) + _pending(faults) + _requests(requests[:SHOWN])
    return page(title="Astrel ERP", lead=lead, body=body)


def fault_from_form(form: dict[str, str]) -> dict[str, Any]:
    """A posted form as the JSON the same endpoint takes; what is not a number stays text and is refused there."""
    asked: dict[str, Any] = {name: value for name, value in form.items() if value}
    if asked.get("times", "").isdecimal():
        asked["times"] = int(asked["times"][:9])
    if asked.get("seconds", "").replace(".", "", 1).isdecimal():
        asked["seconds"] = float(asked["seconds"])
    return asked


def _effects(effects: list[dict[str, Any]]) -> str:
    rows = [
        [
            text(effect["id"]),
            _moment(effect["applied_at"]),
            text(effect["contract"]),
            f'<span class="nowrap">{text(effect["record"])} v{text(effect["version"])}</span>',
            _fields(effect["fields"]),
            _code(effect["operation_key"], "no key"),
            _code(effect["body_sha256"][:12], ""),
        ]
        for effect in effects
    ]
    heads = ["Effect", "Applied", "Contract", "Record", "Fields", "Operation key", "Body digest"]
    return table(caption="What was really done", heads=heads, rows=rows, empty="Nothing has been changed.")


def _requests(requests: list[dict[str, Any]]) -> str:
    rows = [
        [
            text(request["id"]),
            _moment(request["at"]),
            f"<code>{text(request['method'])} {text(request['path'])}</code>",
            _code(request["key"], "no key"),
            _code((request["body_sha256"] or "")[:12], "not read"),
            text(request["fault"] or "none"),
            _outcome(request),
        ]
        for request in requests
    ]
    heads = ["No.", "Received", "Request", "Key sent", "Body digest", "Fault", "Answer"]
    return table(
        caption="Requests and what was answered", heads=heads, rows=rows, empty="No request has come yet."
    )


def _pending(faults: list[Fault]) -> str:
    rows = [
        [
            f'{text(fault.kind)}<br><small class="quiet">{text(KINDS[fault.kind][1])}</small>',
            text(fault.contract or "any"),
            text(fault.method),
            _code(fault.path, "any"),
            text(fault.remaining),
        ]
        for fault in faults
    ]
    heads = ["Fault", "Contract", "Method", "Path begins with", "Times left"]
    listed = table(
        caption="Faults that wait", heads=heads, rows=rows, empty="None: requests are served as they should."
    )
    clear = '<form class="clear" method="post" action="/faults/clear"><button class="second">Clear faults</button></form>'
    return listed + (clear if faults else "")


def _panel(refused: str) -> str:
    told = f'<p class="fail" role="alert">The fault was not set. {text(refused)}</p>' if refused else ""
    kinds = "".join(
        f'<option value="{text(kind)}">{text(kind)}: {text(seen)}</option>'
        for kind, (_, seen) in KINDS.items()
    )
    contracts = "".join(f"<option>{text(contract)}</option>" for contract in CONTRACTS)
    methods = "".join(f"<option>{text(method)}</option>" for method in METHODS)
    return f"""<section><h2>Set the next fault</h2>{told}
<form class="panel" method="post" action="/faults">
<label>Fault <select name="kind">{kinds}</select></label>
<label>Contract <select name="contract"><option value="">any</option>{contracts}</select></label>
<label>Method <select name="method">{methods}</select></label>
<label>Path begins with <input class="wide" name="path" placeholder="any"></label>
<label>Times <input name="times" value="1" inputmode="numeric"></label>
<label>Seconds, if slow <input name="seconds" value="2" inputmode="decimal"></label>
<label>Retry-After, if 429 <input class="wide" name="retry_after" value="2"></label>
<button>Set fault</button>
</form></section>"""


def _fields(fields: dict[str, Any]) -> str:
    return "<br>".join(f"<small>{text(name)}</small> {text(_short(value))}" for name, value in fields.items())


def _short(value: object) -> str:
    return f"{len(value)} entries" if isinstance(value, list | dict) else str(value)[:120]


def _outcome(request: dict[str, Any]) -> str:
    if request["outcome"] is None:
        return '<span class="wait">not answered yet</span>'
    if request["outcome"] != "answered":
        return f'<span class="doubt">{text(request["outcome"])}, no answer</span>'
    return f'<span class="{"ok" if request["status"] < 300 else "fail"}">answered {text(request["status"])}</span>'


def _code(value: object, absent: str) -> str:
    return f"<code>{text(value)}</code>" if value else f'<span class="quiet">{text(absent)}</span>'


def _moment(at: str) -> str:
    return f'<time class="nowrap" datetime="{text(at)}" title="{text(at)}">{text(at[11:19])}</time>'
