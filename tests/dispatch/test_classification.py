"""The table of faults and answers, row by row. Pure: no database, no network."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from dispatch.classification import Outcome, Reading, read_exchange, retry_after
from dispatch.contracts import Contract
from dispatch.joining import joined
from dispatch.wire import Exchange
from tests.dispatch.world import BODY, RECEIPT, a_contract, a_keyed_contract, as_json

NOW = datetime(2026, 3, 13, 12, 0, tzinfo=UTC)
O = Outcome  # noqa: E741 - a table reads better with one letter


def read(seen: Exchange, contract: Contract | None = None) -> Reading:
    contract = contract or a_contract()
    return read_exchange(
        seen, contract, contract.actions["update"], sent=as_json(BODY), record="V-1", now=NOW
    )


def answer(status: int, body: bytes = b"", **more: Any) -> Exchange:
    return Exchange(marked=True, status=status, body=body, **more)


@pytest.mark.parametrize(
    ("exception", "trace", "outcome", "blocked"),
    [
        ("ConnectError", ("connection.connect_tcp.failed",), O.NOT_SENT, False),
        ("ConnectTimeout", ("connection.connect_tcp.failed",), O.NOT_SENT, False),
        ("PoolTimeout", (), O.NOT_SENT, False),
        (
            "ConnectError",
            ("connection.connect_tcp.complete", "connection.start_tls.failed"),
            O.NOT_SENT,
            True,
        ),
        ("ProxyError", (), O.NOT_SENT, False),
        ("ReadError", (), O.NOT_SENT, False),
        ("NotBegun", (), O.NOT_SENT, False),
        ("InvalidURL", (), O.OUR_FAULT, True),
        ("UnsupportedProtocol", (), O.OUR_FAULT, True),
        ("LocalProtocolError", (), O.OUR_FAULT, True),
        ("AddressRefused", (), O.OUR_FAULT, True),
    ],
)
def test_a_failure_before_the_mark_is_definitely_not_a_send(
    exception: str, trace: tuple[str, ...], outcome: Outcome, blocked: bool
) -> None:
    found = read(Exchange(marked=False, exception=exception, trace=trace))
    assert (found.outcome, found.blocked) == (outcome, blocked)


@pytest.mark.parametrize(
    "exception",
    [
        "ReadError",
        "ReadTimeout",
        "WriteError",
        "WriteTimeout",
        "RemoteProtocolError",
        "DecodingError",
        "NewInALaterVersion",
    ],
)
def test_a_failure_after_the_mark_is_doubt(exception: str) -> None:
    assert read(Exchange(marked=True, exception=exception)).outcome is O.UNKNOWN


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        *[(s, O.UNKNOWN) for s in (301, 302, 303, 304, 307, 308, 408, 409, 424, 500, 502, 503, 504, 599)],
        *[(s, O.REFUSED) for s in (400, 402, 404, 405, 410, 412, 413, 414, 415, 422, 501)],
        *[(s, O.NOT_APPLIED) for s in (401, 403, 421, 425, 429)],
        (202, O.PENDING),
        *[(s, O.UNKNOWN) for s in (203, 204, 206, 207)],
    ],
)
def test_a_status_means_no_more_than_it_says(status: int, outcome: Outcome) -> None:
    assert read(answer(status)).outcome is outcome


def test_only_the_contract_makes_503_a_definite_no() -> None:
    assert read(answer(503)).outcome is O.UNKNOWN
    shed = a_contract(definite_not_applied_codes=frozenset({503}))
    assert read(answer(503, headers={"retry-after": "3"}), shed) == Reading(
        O.NOT_APPLIED, "answered 503", retry_after=3.0
    )


def test_a_valid_body_that_agrees_is_applied() -> None:
    assert read(answer(201, as_json(RECEIPT))) == Reading(O.APPLIED, "answered 201", receipt_id="R-1")


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", ""),
        (b"<html>", ""),
        (b'{"id": "R', ""),
        (b"[]", ""),
        (b"\xff", ""),
        (b"{}", "cut off"),
        (b"{}", ""),
    ],
)
def test_a_success_that_cannot_be_read_is_doubt(body: bytes, problem: str) -> None:
    assert read(answer(200, body, body_problem=problem)).outcome is O.UNKNOWN


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (b', "id": "R-2"}', 'the answer says "id" twice'),
        (b', "more": {"a": 1, "a": 1}}', 'the answer says "a" twice'),
        (b', "more": NaN}', "the answer is not readable JSON"),
    ],
)
def test_a_success_that_two_readers_may_read_differently_is_doubt(extra: bytes, said: str) -> None:
    as_approved = as_json(RECEIPT)
    assert read(answer(200, as_approved)).outcome is O.APPLIED
    reading = read(answer(200, as_approved[:-1] + extra))
    assert (reading.outcome, said in reading.fault) == (O.UNKNOWN, True)


@pytest.mark.parametrize(
    "told",
    [
        {**RECEIPT, "fields": {"limit": "4800.0"}},
        {**RECEIPT, "fields": {"limit": 4800}},
        {**RECEIPT, "fields": {}},
        {**RECEIPT, "fields": None},
        {**RECEIPT, "record": "V-2"},
    ],
)
def test_a_success_that_differs_is_conflicted(told: dict[str, Any]) -> None:
    assert read(answer(200, as_json(told))).outcome is O.CONFLICTED


def test_signals_are_read_before_the_status() -> None:
    keyed = a_keyed_contract()
    assert read(answer(422, as_json({"code": "key_reused"})), keyed).outcome is O.KEY_MISMATCH
    assert read(answer(409, as_json({"code": "key_in_progress"})), keyed).outcome is O.IN_PROGRESS
    assert read(answer(422, as_json({"code": "other"})), keyed).outcome is O.REFUSED
    assert read(answer(409, as_json({"code": "other"})), keyed).outcome is O.UNKNOWN


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("999999999999", 900.0),
        ("Fri, 13 Mar 2026 12:00:30 GMT", 30.0),
        ("Fri, 13 Mar 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("٣", None),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_never_for_ever(value: str, seconds: float | None) -> None:
    assert retry_after(value, now=NOW, longest=900.0) == seconds


@pytest.mark.parametrize(
    ("outcomes", "state"),
    [
        ([], "PREPARED"),
        ([O.NOT_SENT, O.NOT_APPLIED, O.OUR_FAULT], "PREPARED"),
        ([O.UNKNOWN, O.REFUSED], "UNKNOWN"),
        ([O.UNKNOWN, O.NOT_SENT], "UNKNOWN"),
        ([O.UNKNOWN, O.APPLIED], "CONFIRMED"),
        ([O.UNKNOWN, O.CONFLICTED], "CONFLICTED"),
        ([O.NOT_APPLIED, O.REFUSED], "REFUSED"),
        ([O.PENDING], "SUBMITTED"),
        ([O.PENDING, O.UNKNOWN], "UNKNOWN"),
        ([O.IN_PROGRESS], "UNKNOWN"),
        ([O.KEY_MISMATCH], "UNKNOWN"),
    ],
)
def test_an_operation_is_the_join_of_its_submissions(outcomes: list[Outcome], state: str) -> None:
    assert joined(outcomes) == state
