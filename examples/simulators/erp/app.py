"""Routes: the three contracts, which are logged and can be struck by a fault, and the control pages, which are not."""

from pathlib import Path
from urllib.parse import parse_qsl

from examples.simulators import faults, requests
from examples.simulators.database import Database, timestamp
from examples.simulators.erp import calling, keys, later, ledger, pages
from examples.simulators.erp.calling import Caller
from examples.simulators.erp.contracts import CONTRACTS, Contracts
from examples.simulators.erp.later import Later
from examples.simulators.faults import Fault, FaultQueue, fault_as_json
from examples.simulators.page import stylesheet
from examples.simulators.requests import RequestLog
from examples.simulators.wire import (
    Answer,
    Incoming,
    Refused,
    Reply,
    html_answer,
    json_answer,
    parse_json_object,
    problem,
)

SCHEMA = ledger.SCHEMA + keys.SCHEMA + later.SCHEMA + calling.SCHEMA + faults.SCHEMA + requests.SCHEMA


class Erp:
    def __init__(self, *, database: Path, retention: float) -> None:
        self._database = Database(database, SCHEMA)
        ledger.seed_vendors(self._database)
        self._caller = Caller(self._database)
        self._contracts = Contracts(self._database, retention, Later(self._database, self._caller))
        self._faults = FaultQueue(self._database, CONTRACTS)
        self._log = RequestLog(self._database)
        self._caller.start()

    def __call__(self, request: Incoming) -> Reply:
        if request.segments[0] in CONTRACTS:
            return self._under_contract(request)
        return self._control(request)

    def _under_contract(self, request: Incoming) -> Reply:
        fault = self._faults.take(request)
        if fault is not None and fault.kind == "drop_before_read":
            return self._logged(request, None, fault, fault.distort(None))
        try:
            body = request.read_body()
        except Refused as refusal:
            return self._logged(request, None, fault, refusal.reply)
        number = self._log.open(request, body, fault)
        reply = self._struck(request, body, fault) if fault else self._served(request, body, None)
        self._log.complete(number, reply)
        return reply

    def _logged(self, request: Incoming, body: bytes | None, fault: Fault | None, reply: Reply) -> Reply:
        self._log.complete(self._log.open(request, body, fault), reply)
        return reply

    def _struck(self, request: Incoming, body: bytes, fault: Fault) -> Reply:
        if not fault.applies:
            return fault.distort(None)
        answer = self._served(request, body, fault)
        return fault.distort(answer) if isinstance(answer, Answer) else answer

    def _served(self, request: Incoming, body: bytes, fault: Fault | None) -> Reply:
        try:
            return self._contracts.answer(request, body, fault.pause_before_apply if fault else _at_once)
        except Refused as refusal:
            return refusal.reply

    def _control(self, request: Incoming) -> Reply:
        match request.method, request.path:
            case "GET" | "HEAD", "/":
                return html_answer(self._effects_page())
            case "GET" | "HEAD", "/simulators.css":
                return stylesheet()
            case "GET" | "HEAD", "/healthz":
                return json_answer(200, {"status": "ok"})
            case "GET", "/effects.json":
                found = ledger.effects(
                    self._database, key=request.query.get("key"), record=request.query.get("record")
                )
                return json_answer(200, {"effects": found})
            case "GET", "/requests.json":
                logged = self._log.requests(key=request.query.get("key"), path=request.query.get("path"))
                return json_answer(200, {"requests": logged})
            case "GET", "/callbacks.json":
                return json_answer(200, {"callbacks": self._caller.sent()})
            case "POST", "/callbacks":
                self._caller.subscribe(parse_json_object(request.read_body()))
                return json_answer(200, {"status": "subscribed"})
            case "POST", "/callbacks/plans":
                self._caller.plan(parse_json_object(request.read_body()))
                return json_answer(201, {"status": "planned"})
            case "GET", "/faults":
                return self._pending()
            case "POST", "/faults":
                return self._set_fault(request)
            case "DELETE", "/faults":
                self._faults.clear()
                return self._pending()
            case "POST", "/faults/clear":
                self._faults.clear()
                return Answer(303, headers={"Location": "/"})
        return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")

    def _effects_page(self, refused: str = "") -> str:
        return pages.effects_page(
            effects=ledger.effects(self._database)[::-1],
            requests=self._log.requests()[::-1],
            faults=self._faults.pending(),
            refused=refused,
        )

    def _pending(self) -> Answer:
        return json_answer(200, {"faults": [fault_as_json(fault) for fault in self._faults.pending()]})

    def _set_fault(self, request: Incoming) -> Answer:
        body = request.read_body()
        if (request.header("Content-Type") or "").startswith("application/x-www-form-urlencoded"):
            return self._set_fault_by_form(body)
        fault = self._faults.add(parse_json_object(body), timestamp())
        return json_answer(201, fault_as_json(fault))

    def _set_fault_by_form(self, body: bytes) -> Answer:
        try:
            self._faults.add(
                pages.fault_from_form(dict(parse_qsl(body.decode("utf-8", "replace")))), timestamp()
            )
        except Refused as refusal:
            detail = (
                parse_json_object(refusal.reply.body)["detail"] if isinstance(refusal.reply, Answer) else ""
            )
            return html_answer(self._effects_page(refused=str(detail)), 422)
        return Answer(303, headers={"Location": "/"})


def _at_once() -> None:
    """No fault: nothing to wait for before applying."""
