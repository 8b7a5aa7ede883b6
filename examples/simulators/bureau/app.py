"""Routes: the two APIs, which are logged and can be struck by a fault, and the control pages, which are not."""

import re
from pathlib import Path

from examples.simulators import faults, requests
from examples.simulators.bureau import companies, pages
from examples.simulators.database import Database, timestamp
from examples.simulators.faults import Fault, FaultQueue, fault_as_json
from examples.simulators.page import stylesheet
from examples.simulators.requests import RequestLog
from examples.simulators.wire import (
    Answer,
    Incoming,
    Reply,
    html_answer,
    json_answer,
    parse_json_object,
    problem,
)

APIS = ("register", "credit")
NUMBER = re.compile(r"[A-Z]{2}-[0-9A-F]{10}")


class Bureau:
    def __init__(self, *, database: Path) -> None:
        self._database = Database(database, faults.SCHEMA + requests.SCHEMA)
        self._faults = FaultQueue(self._database)
        self._log = RequestLog(self._database)

    def __call__(self, request: Incoming) -> Reply:
        return self._asked(request) if request.segments[0] in APIS else self._control(request)

    def _asked(self, request: Incoming) -> Reply:
        fault = self._faults.take(request)
        number = self._log.open(request, b"", fault)
        reply = _answer(request) if fault is None else _struck(request, fault)
        self._log.complete(number, reply)
        return reply

    def _control(self, request: Incoming) -> Reply:
        match request.method, request.path:
            case "GET" | "HEAD", "/":
                return html_answer(
                    pages.requests_page(requests=self._log.requests()[::-1], faults=self._faults.pending())
                )
            case "GET" | "HEAD", "/simulators.css":
                return stylesheet()
            case "GET" | "HEAD", "/healthz":
                return json_answer(200, {"status": "ok"})
            case "GET", "/requests.json":
                return json_answer(200, {"requests": self._log.requests(path=request.query.get("path"))})
            case "GET", "/faults":
                return self._pending()
            case "POST", "/faults":
                fault = self._faults.add(parse_json_object(request.read_body()), timestamp())
                return json_answer(201, fault_as_json(fault))
            case "DELETE", "/faults":
                self._faults.clear()
                return self._pending()
        return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")

    def _pending(self) -> Answer:
        return json_answer(200, {"faults": [fault_as_json(fault) for fault in self._faults.pending()]})


def _struck(request: Incoming, fault: Fault) -> Reply:
    fault.pause_before_apply()
    return fault.distort(_answer(request) if fault.applies else None)


def _answer(request: Incoming) -> Answer:
    match request.method, request.segments:
        case "GET", ["register", "companies", country, name]:
            found = companies.company(country, name)
            if found is None:
                return problem(404, "no_such_company", "The register has no company of that name there.")
            return json_answer(200, found)
        case "GET", ["credit", "ratings", number] if NUMBER.fullmatch(number):
            return json_answer(200, companies.rating(number))
    return problem(404, "no_such_endpoint", f"{request.method} {request.path} is not offered here.")
