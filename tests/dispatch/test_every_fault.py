"""Every row of faults again, sent by the machine: under no promise, under a key, under a look-up.

When the receiver sees the first byte, another session of the database sees the mark. What follows is the row's outcome
and the contract, and nothing else.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable
from http import HTTPStatus

import psycopg
import pytest

from dispatch.classification import STATUSES, Outcome
from dispatch.contracts import Contract
from tests.dispatch.faults import Behaviour, FaultServer
from tests.dispatch.test_faults import LARGE, MEANT, OK, ROWS, Row
from tests.dispatch.world import Dispatching, a_contract, a_keyed_contract, a_lookup_contract
from tests.docs.generated import ROOT

O = Outcome  # noqa: E741 - a table reads better with one letter
SENT = {name: row for name, row in ROWS.items() if row.body is not LARGE}
FAULTS = {name: row for name, row in SENT.items() if not name.isdecimal()}
STATUSES_ALONE = {name: row for name, row in SENT.items() if name.isdecimal()}
PLAIN = {name: row for name, row in SENT.items() if not row.contract}
STATE = {
    O.APPLIED: "CONFIRMED",
    O.CONFLICTED: "CONFLICTED",
    O.PENDING: "UNKNOWN",  # where nothing is promised nobody ever says what became of it
    O.REFUSED: "REFUSED",
    O.NOT_APPLIED: "PREPARED",
    O.UNKNOWN: "UNKNOWN",
    O.IN_PROGRESS: "UNKNOWN",
    O.KEY_MISMATCH: "UNKNOWN",
}
"""What one send makes of its operation."""


def noting(does: Behaviour, marks: list[bool]) -> Behaviour:
    """Before it does what it does, and reads a byte, asks the database whether the mark stands there for others to see."""

    def behaves(connection: socket.socket) -> bytes:
        assert connection.recv(1, socket.MSG_PEEK)
        with psycopg.connect(os.environ["DATABASE_URL"]) as another:
            query = (
                "SELECT may_have_been_sent_at IS NOT NULL FROM dispatch_submission WHERE closed_at IS NULL"
            )
            marks.extend(marked for (marked,) in another.execute(query).fetchall())
        return does(connection)

    return behaves


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "rows", [FAULTS, pytest.param(STATUSES_ALONE, marks=pytest.mark.long)], ids=["faults", "statuses"]
)
def test_the_mark_is_there_for_all_to_see_before_the_receiver_has_a_byte(rows: dict[str, Row]) -> None:
    found, expected = {}, {}
    for name, row in rows.items():
        marks: list[bool] = []
        with FaultServer(noting(row.does, marks), OK) as server:
            d = Dispatching.make(server.url, a_contract(**row.contract))
            job = d.ready()
            d.step(d.operation(job))
            requests = len(server.received)
        (sent,), operation = d.submissions(job), d.operation(job)
        status = row.seen if isinstance(row.seen, int) else None
        found[name] = (
            marks, requests, sent.may_have_been_sent_at is not None, sent.outcome, sent.status, operation.state,
            operation.next_step == "blocked",
        )  # fmt: skip
        blocked = (
            row.blocked and row.outcome is O.NOT_APPLIED
        )  # other content under our key is a case of its own
        expected[name] = ([True], 1, True, row.outcome.value, status, STATE[row.outcome], blocked)
    assert found == expected


def after_no_promise(row: Row) -> tuple[str, list[bytes]]:
    """Where the job ends and what the receiver was asked, where it promises nothing: sent once, unless it is a definite no."""
    ends = {
        O.APPLIED: "CONFIRMED",
        O.REFUSED: "FAILED",
        O.NOT_APPLIED: "READY_TO_COMMIT" if row.blocked else "CONFIRMED",
    }
    again = [b"PUT"] if row.outcome is O.NOT_APPLIED and not row.blocked else []
    return ends.get(row.outcome, "NEEDS_RECONCILIATION"), [b"PUT", *again]


def after_a_key(row: Row) -> tuple[str, list[bytes]]:
    """The same key and bytes settle doubt; where a redirect leads is another, and what was accepted is not sent again."""
    elsewhere = isinstance(row.seen, int) and 300 <= row.seen < 400
    if row.outcome is O.UNKNOWN and not elsewhere:
        return "CONFIRMED", [b"PUT", b"PUT"]
    return after_no_promise(row)


def after_a_look_up(row: Row) -> tuple[str, list[bytes]]:
    """Doubt is asked about, and not sent again."""
    if row.outcome in (O.UNKNOWN, O.PENDING):
        return "CONFIRMED", [b"PUT", b"GET"]
    return after_no_promise(row)


@pytest.mark.long
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("contract", "comes_to"),
    [
        (a_contract(), after_no_promise),
        (a_keyed_contract(), after_a_key),
        (a_lookup_contract(), after_a_look_up),
    ],
    ids=["no promise", "a key", "a look-up"],
)
def test_what_follows_is_what_the_contract_allows_and_is_the_same_to_the_byte(
    contract: Contract, comes_to: Callable[[Row], tuple[str, list[bytes]]]
) -> None:
    found, others = {}, {}
    for name, row in PLAIN.items():
        with FaultServer(row.does, OK, OK) as server:
            d = Dispatching.make(server.url, contract)
            job = d.ready()
            d.run(job)
            # Whoever resets before it reads has a request of which it knows nothing.
            asked = [request.split(b" ")[0] or b"PUT" for request in server.received]
            sent = {request for request in server.received if request.startswith(b"PUT")}
        found[name] = (d.job_state(job), asked)
        if len(sent) > 1:
            others[name] = sent
    assert found == {name: comes_to(row) for name, row in PLAIN.items()}
    assert others == {}


# -- guards ----------------------------------------------------------------------------------------------------------
def told_in_the_docs(*, classes: bool = True) -> dict[int, tuple[str, bool]]:
    """Of each status from 300 on that the table of docs/receivers.md names: its outcome, and whether it is blocked.

    `classes`: with all that are registered of those that it names as 3xx.
    """
    text = (ROOT / "docs" / "receivers.md").read_text("utf-8")
    table = text.partition("## What an exchange means")[2].partition("\n## ")[0]
    of_classes: dict[int, tuple[str, bool]] = {}
    single: dict[int, tuple[str, bool]] = {}
    for seen, outcome, then in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE):
        meant = (outcome, then.startswith("blocked"))
        for hundreds in re.findall(r"\b([3-5])xx", seen):
            known = [s for s in HTTPStatus if s // 100 == int(hundreds)]
            of_classes |= dict.fromkeys(map(int, known), meant)
        for first, last in re.findall(r"\b([3-5]\d\d)(?: to (\d{3}))?", seen):
            single |= dict.fromkeys(range(int(first), int(last or first) + 1), meant)
    return {**of_classes, **single} if classes else single


def test_every_status_that_the_docs_name_is_a_row_that_says_the_same() -> None:
    told = told_in_the_docs()
    assert {400, 401, 409, 421, 429, 500, 304} <= told.keys(), "the table is found and read"
    rows = {s: (str(o.value), blocked) for (o, blocked), statuses in MEANT.items() for s in statuses}
    assert {s: rows.get(s) for s in told} == told
    assert all(str(s) in ROWS for s in told)


def test_every_status_that_anybody_has_registered_is_a_row_and_what_the_code_knows_is_in_the_docs() -> None:
    assert [s for s in HTTPStatus if s >= 200 and str(int(s)) not in ROWS] == []
    told = told_in_the_docs()
    assert {s: (o.value, blocked) for s, (o, blocked) in STATUSES.items()} == {
        s: told.get(s) for s in STATUSES
    }
