import signal
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from examples.simulators.client import ErpControl, Running, start_erp
from tests.examples.simulators.waiting import wait_until

pytestmark = pytest.mark.processes

VENDOR = "V-30417"
CHANGE = {"credit_limit": "48200.00", "payment_terms": "45 days net"}
CONTRACTS = ("keyed", "lookup", "neither")


def put(http: httpx.Client, contract: str, key: str = "op-1", **change: str) -> httpx.Response:
    headers = {"keyed": {"Idempotency-Key": key}, "lookup": {"X-Operation-Key": key}}.get(contract, {})
    return http.put(f"/{contract}/vendors/{VENDOR}", json=change or CHANGE, headers=headers)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_write_is_applied_and_its_receipt_says_what_was_applied(
    http: httpx.Client, control: ErpControl, contract: str
) -> None:
    before = http.get(f"/{contract}/vendors/{VENDOR}").json()
    answer = put(http, contract)
    after = http.get(f"/{contract}/vendors/{VENDOR}").json()
    effects = control.effects()

    assert answer.status_code == 200
    assert answer.json() == {
        "id": "R-000001",
        "record": VENDOR,
        "version": 42,
        "applied_at": effects[0]["applied_at"],
        "fields": CHANGE,
    }
    assert before["version"] == 41
    assert before["fields"]["credit_limit"] == "20000.00"
    assert after == {
        **before,
        "version": 42,
        "updated_at": effects[0]["applied_at"],
        "fields": {**before["fields"], **CHANGE},
    }
    assert len(effects) == 1
    assert effects[0]["body_sha256"] == sha256(answer.request.content).hexdigest()
    assert effects[0]["operation_key"] == (None if contract == "neither" else "op-1")


@pytest.mark.parametrize("contract", CONTRACTS)
def test_a_policy_is_published_under_an_id_the_receiver_chose(http: httpx.Client, contract: str) -> None:
    policy = {"title": "Travel and expense policy", "rules": [{"number": 1, "text": "Keep the receipt."}]}
    published = http.post(f"/{contract}/policies", json=policy, headers={"Idempotency-Key": "p-1"})
    assert (published.status_code, published.json()["record"], published.json()["version"]) == (
        201,
        "P-00001",
        1,
    )
    assert http.get(f"/{contract}/policies/P-00001").json()["fields"] == policy


def test_a_new_vendor_is_created_and_an_unknown_one_is_not_found(http: httpx.Client) -> None:
    assert http.get("/neither/vendors/V-99999").status_code == 404
    assert http.put("/neither/vendors/V-99999", json={"name": "New"}).status_code == 201
    assert http.get("/neither/vendors/V-99999").json()["version"] == 1


def test_a_suspended_vendor_says_so(http: httpx.Client) -> None:
    assert http.get(f"/lookup/vendors/{VENDOR}").json()["suspended"] is False
    assert http.get("/lookup/vendors/V-30119").json()["suspended"] is True
    http.put("/neither/vendors/V-30119", json={"suspended": False})
    assert http.get("/lookup/vendors/V-30119").json()["suspended"] is False


def test_keyed_replays_the_first_answer_for_the_same_key_and_body(
    http: httpx.Client, control: ErpControl
) -> None:
    first, second = put(http, "keyed"), put(http, "keyed")
    assert "Idempotent-Replayed" not in first.headers
    assert second.headers["Idempotent-Replayed"] == "true"
    assert (second.status_code, second.content) == (first.status_code, first.content)
    assert len(control.effects(key="op-1")) == 1


def test_keyed_refuses_the_same_key_with_another_body(http: httpx.Client, control: ErpControl) -> None:
    put(http, "keyed")
    other = put(http, "keyed", credit_limit="99999.00")
    assert (other.status_code, other.json()["code"]) == (422, "key_reused")
    assert len(control.effects()) == 1


def test_keyed_requires_a_key(http: httpx.Client, control: ErpControl) -> None:
    refused = http.put(f"/keyed/vendors/{VENDOR}", json=CHANGE)
    assert (refused.status_code, refused.json()["code"]) == (400, "key_missing")
    assert control.effects() == []


def test_keyed_looks_up_by_key(http: httpx.Client) -> None:
    assert http.get("/keyed/operations/op%2F1").status_code == 404
    receipt = put(http, "keyed", key="op/1").json()
    found = http.get("/keyed/operations/op%2F1").json()
    assert {name: found[name] for name in receipt} == receipt
    assert http.get("/lookup/operations/op%2F1").status_code == 404


def test_keyed_counts_the_key_as_new_after_the_retention(tmp_path: Path) -> None:
    with start_erp(database=tmp_path / "erp.sqlite3", retention=0) as erp, client_of(erp) as http:
        assert [put(http, "keyed").json()["id"] for _ in range(2)] == ["R-000001", "R-000002"]
        assert http.get("/keyed/operations/op-1").status_code == 404


def test_keyed_answers_409_while_the_first_request_is_in_progress(
    http: httpx.Client, control: ErpControl
) -> None:
    """A reserves the key and waits; B comes with the same key and is told; A applies; C gets A's answer again."""
    control.set_fault("slow_before", seconds=3)
    with ThreadPoolExecutor() as pool:
        first = pool.submit(put, http, "keyed")
        wait_until_reserved(http)
        second = put(http, "keyed")
        assert (second.status_code, second.json()["code"]) == (409, "key_in_progress")
        assert control.effects() == []
        assert put(http, "keyed", credit_limit="1.00").json()["code"] == "key_reused"
        assert first.result().status_code == 200
    assert put(http, "keyed").content == first.result().content
    assert len(control.effects()) == 1


def test_keyed_applies_once_however_many_come_at_the_same_time(
    http: httpx.Client, control: ErpControl
) -> None:
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: put(http, "keyed"), range(64)))
    applied = [answer for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert len({answer.content for answer in applied}) == 1
    assert len([answer for answer in applied if "Idempotent-Replayed" not in answer.headers]) == 1
    assert len(control.effects()) == 1
    assert len(control.requests()) == 64


def test_lookup_applies_twice_and_finds_what_was_applied(http: httpx.Client, control: ErpControl) -> None:
    assert http.get("/lookup/operations/op-1").json()["code"] == "no_such_operation"
    first = put(http, "lookup").json()
    put(http, "lookup")
    found = http.get("/lookup/operations/op-1").json()
    assert {name: found[name] for name in first} == first
    assert (found["operation_key"], found["count"]) == ("op-1", 2)
    assert len(control.effects(key="op-1")) == 2


def test_neither_ignores_keys_and_has_no_lookup(http: httpx.Client, control: ErpControl) -> None:
    for _ in range(2):
        http.put(
            f"/neither/vendors/{VENDOR}",
            json=CHANGE,
            headers={"Idempotency-Key": "k", "X-Operation-Key": "k"},
        )
    assert [effect["operation_key"] for effect in control.effects(record=VENDOR)] == [None, None]
    assert [request["key"] for request in control.requests()] == ["k", "k"]
    assert http.get("/neither/operations/k").json()["code"] == "no_such_endpoint"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"{", 400, "bad_json"),
        (b"\xff\xfe{}", 400, "bad_json"),
        (b'{"a": NaN}', 400, "bad_json"),
        (b"[1]", 400, "not_an_object"),
        (b"[" * 100_000, 400, "bad_json"),
        (b'{"a":' * 500 + b"1" + b"}" * 500, 400, "too_deep"),
        (b'{"credit_limit": 48200}', 422, "amount_not_a_string"),
        (b'{"credit_limit": 48200.00}', 422, "amount_not_a_string"),
        (b'{"lines": [{"amount": 1}]}', 422, "amount_not_a_string"),
        (b'{"credit_limit": "lots"}', 422, "amount_not_a_string"),
        (b'{"suspended": "yes"}', 422, "not_a_boolean"),
    ],
)
def test_a_body_that_is_wrong_changes_nothing(
    http: httpx.Client, control: ErpControl, body: bytes, status: int, code: str
) -> None:
    answer = http.put(f"/neither/vendors/{VENDOR}", content=body)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert control.effects() == []
    assert [request["status"] for request in control.requests()] == [status]


@pytest.mark.parametrize("ending", ["stop", "kill"])
def test_effects_keys_and_faults_outlive_the_process(tmp_path: Path, ending: str) -> None:
    database = tmp_path / "erp.sqlite3"
    with start_erp(database=database) as erp, client_of(erp) as http:
        first = put(http, "keyed")
        ErpControl(erp.base_url).set_fault("status_503", contract="lookup")
        getattr(erp, ending)()
    with start_erp(database=database) as erp, client_of(erp) as http:
        control = ErpControl(erp.base_url)
        replayed = put(http, "keyed")
        assert replayed.content == first.content
        assert replayed.headers["Idempotent-Replayed"] == "true"
        assert [effect["id"] for effect in control.effects()] == ["R-000001"]
        assert len(control.requests()) == 2
        assert [fault["kind"] for fault in control.faults()] == ["status_503"]


def test_a_reservation_that_lost_its_process_is_free_again(tmp_path: Path) -> None:
    """A reserves the key and waits; the process is killed before it applies; the same key then applies once."""
    database = tmp_path / "erp.sqlite3"
    with start_erp(database=database) as erp, client_of(erp) as http:
        ErpControl(erp.base_url).set_fault("slow_before", seconds=600)
        with ThreadPoolExecutor() as pool:
            waiting = pool.submit(put, http, "keyed")
            wait_until_reserved(http)
            erp.kill()
            assert isinstance(waiting.exception(), httpx.TransportError)
    with start_erp(database=database) as erp, client_of(erp) as http:
        assert put(http, "keyed").status_code == 200
        assert len(ErpControl(erp.base_url).effects()) == 1


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_at_once_even_while_a_request_waits(
    erp: Running, http: httpx.Client, control: ErpControl, sent: signal.Signals
) -> None:
    control.set_fault("slow_before", seconds=600)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(put, http, "keyed")
        wait_until_reserved(http)
        erp.process.send_signal(sent)
        assert erp.process.wait(timeout=5) == 0
        assert isinstance(waiting.exception(), httpx.TransportError)


def wait_until_reserved(http: httpx.Client) -> None:
    wait_until(lambda: http.get("/keyed/operations/op-1").json()["code"] == "operation_in_progress")


def client_of(running: Running) -> httpx.Client:
    return httpx.Client(base_url=running.base_url, trust_env=False, timeout=10)
