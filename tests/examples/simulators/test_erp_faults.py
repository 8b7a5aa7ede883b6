import json

import httpx
import pytest

from examples.simulators.client import ErpControl
from tests.examples.simulators.waiting import wait_until

pytestmark = pytest.mark.processes

PATH = "/keyed/vendors/V-30417"
CHANGE = {"credit_limit": "48200.00", "payment_terms": "45 days net"}
KEY = {"Idempotency-Key": "op-1"}


def put(http: httpx.Client, *, timeout: float = 10) -> httpx.Response:
    return http.put(PATH, json=CHANGE, headers=KEY, timeout=timeout)


def test_drop_after_commit_applies_and_never_answers(http: httpx.Client, control: ErpControl) -> None:
    control.set_fault("drop_after_commit")
    with pytest.raises(httpx.RemoteProtocolError, match="without sending a response"):
        put(http)
    assert len(control.effects(key="op-1")) == 1
    assert [(logged["outcome"], logged["status"]) for logged in control.requests()] == [("dropped", None)]

    assert put(http).headers["Idempotent-Replayed"] == "true"
    assert len(control.effects()) == 1


@pytest.mark.parametrize(("kind", "body_was_read"), [("drop_before_read", False), ("reset", True)])
def test_a_reset_applies_nothing(
    http: httpx.Client, control: ErpControl, kind: str, body_was_read: bool
) -> None:
    control.set_fault(kind)
    with pytest.raises(httpx.ReadError):
        put(http)
    assert control.effects() == []
    logged = control.requests()
    assert [(request["outcome"], request["body"] is not None) for request in logged] == [
        ("reset", body_was_read)
    ]
    assert put(http).status_code == 200


@pytest.mark.parametrize("status", [503, 429, 500])
def test_an_error_status_applies_nothing_unless_asked(
    http: httpx.Client, control: ErpControl, status: int
) -> None:
    control.set_fault(f"status_{status}")
    assert put(http).status_code == status
    assert control.effects() == []

    control.set_fault(f"status_{status}", applied=True)
    assert put(http).status_code == status
    assert len(control.effects()) == 1


@pytest.mark.parametrize("retry_after", [7, "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_429_says_when_to_come_back(http: httpx.Client, control: ErpControl, retry_after: int | str) -> None:
    control.set_fault("status_429", retry_after=retry_after)
    assert put(http).headers["Retry-After"] == str(retry_after)


def test_slow_has_applied_when_the_client_gives_up(http: httpx.Client, control: ErpControl) -> None:
    control.set_fault("slow", seconds=60)
    with pytest.raises(httpx.ReadTimeout):
        put(http, timeout=2)
    assert len(control.effects()) == 1


def test_slow_before_applies_after_the_client_gave_up(http: httpx.Client, control: ErpControl) -> None:
    control.set_fault("slow_before", seconds=3)
    with pytest.raises(httpx.ReadTimeout):
        put(http, timeout=0.3)
    assert control.effects() == []
    wait_until(lambda: control.effects() != [])
    assert len(control.effects()) == 1


def test_malformed_applies_and_answers_json_that_is_cut(http: httpx.Client, control: ErpControl) -> None:
    control.set_fault("malformed")
    answer = put(http)
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        answer.json()
    assert len(control.effects()) == 1


def test_html_200_is_a_sign_in_page_and_applies_nothing(http: httpx.Client, control: ErpControl) -> None:
    control.set_fault("html_200")
    answer = put(http)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert control.effects() == []


@pytest.mark.parametrize(
    ("kind", "status", "body"), [("empty_201", 201, b""), ("accepted_202", 202, b'{"status":"accepted"}')]
)
def test_an_answer_without_a_receipt_has_applied(
    http: httpx.Client, control: ErpControl, kind: str, status: int, body: bytes
) -> None:
    control.set_fault(kind)
    answer = put(http)
    assert (answer.status_code, b"".join(answer.content.split())) == (status, body)
    assert len(control.effects()) == 1


def test_differs_applies_what_was_asked_and_answers_another_amount(
    http: httpx.Client, control: ErpControl
) -> None:
    control.set_fault("differs")
    assert put(http).json()["fields"] == {**CHANGE, "credit_limit": "84200.00"}
    assert control.effects()[0]["fields"] == CHANGE

    control.set_fault("differs", field="payment_terms", value="90 days net")
    assert put(http).json()["fields"] == {**CHANGE, "payment_terms": "90 days net"}


def test_faults_strike_in_order_where_they_match_and_as_often_as_asked(
    http: httpx.Client, control: ErpControl
) -> None:
    control.set_fault("status_500", contract="lookup")
    control.set_fault("status_503", path="/keyed/vendors", times=2)
    control.set_fault("status_429", method="GET")
    assert [put(http).status_code for _ in range(3)] == [503, 503, 200]
    assert [http.get(PATH).status_code for _ in range(2)] == [429, 200]
    assert [fault["kind"] for fault in control.faults()] == ["status_500"]
    control.clear_faults()
    assert control.faults() == []


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "earthquake"},
        {"kind": "slow", "seconds": -1},
        {"kind": "slow", "times": 0},
        {"kind": "slow", "contract": "all"},
        {"kind": "slow", "path": "keyed"},
        {"kind": "status_429", "retry_after": "1\r\nX: y"},
        {"kind": "drop_after_commit", "applied": False},
    ],
)
def test_a_fault_that_cannot_be_is_refused(
    http: httpx.Client, control: ErpControl, fault: dict[str, object]
) -> None:
    refused = http.post("/faults", json=fault)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_fault")
    assert control.faults() == []


def test_the_panel_sets_and_clears_faults_without_a_script(http: httpx.Client, control: ErpControl) -> None:
    form = {
        "kind": "slow",
        "contract": "keyed",
        "method": "write",
        "path": "",
        "times": "2",
        "seconds": "1.5",
    }
    assert http.post("/faults", data=form).status_code == 303
    waiting = control.faults()
    assert [(fault["kind"], fault["remaining"], fault["seconds"]) for fault in waiting] == [("slow", 2, 1.5)]
    assert http.post("/faults/clear").status_code == 303
    assert control.faults() == []

    refused = http.post("/faults", data={**form, "times": "many"})
    assert refused.status_code == 422
    assert "The fault was not set. times:" in refused.text


def test_the_page_shows_effects_and_answers_and_escapes_them(http: httpx.Client, control: ErpControl) -> None:
    control.set_fault("drop_after_commit", contract="lookup")
    hostile = '<script>alert("x")</script>'
    body = json.dumps({"name": hostile, "\ud800": "\udfff"})
    with pytest.raises(httpx.RemoteProtocolError):
        http.put("/lookup/vendors/<b>", content=body, headers={"X-Operation-Key": hostile})
    page = http.get("/")
    assert page.status_code == 200
    assert "<script" not in page.text
    assert "<b>" not in page.text
    assert "&lt;script&gt;" in page.text
    assert "dropped, no answer" in page.text
    assert "R-000001" in page.text
    assert http.get("/simulators.css").headers["Content-Type"] == "text/css; charset=utf-8"
