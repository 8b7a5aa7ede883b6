"""H12: the process that sends is really killed, at each of five points around the first send, under three contracts."""

from __future__ import annotations

import os
import re
import socket
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dispatch.contracts import Contract, Lookup, Timeouts
from tests import clusters
from tests.crash import dying
from tests.crash.dying import ANSWERED, MARKED, OPENED, RECORDED, TAKEN
from tests.dispatch.faults import FaultServer, read_all
from tests.dispatch.own_connectors import installed
from tests.dispatch.world import (
    Dispatching,
    a_contract,
    a_keyed_contract,
    a_lookup_contract,
    receipt,
    states,
)
from tests.support import eventually, install
from workflows.models import Job
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
WORKFLOWS = "tests.workflows_for_tests"
TIMES = Timeouts(connect=1, read=3, write=1, send_window=2)
LOOKS = Lookup(
    path="/operations/{operation_key}",
    authoritative=True,
    schedule=(0, 2, 4, 8, 16),
    absence_is_proof_after=0,
)
AGAIN = ("CONFIRMED", ["unknown", "applied"])
ASKED = ("CONFIRMED", ["unknown"])
IN_DOUBT = ("NEEDS_RECONCILIATION", ["unknown"])
LATER, DONE = ("CONFIRMED", ["not sent", "applied"]), ("CONFIRMED", ["applied"])
CONTRACTS: dict[str, tuple[Contract, dict[str, tuple[tuple[str, list[str]], int, int]]]] = {
    "neither": (
        a_contract(),
        {
            OPENED: (LATER, 1, 1),
            MARKED: (IN_DOUBT, 0, 0),
            TAKEN: (IN_DOUBT, 1, 1),
            ANSWERED: (IN_DOUBT, 1, 1),
            RECORDED: (DONE, 1, 1),
        },
    ),
    "key": (
        a_keyed_contract(),
        {
            OPENED: (LATER, 1, 1),
            MARKED: (AGAIN, 1, 1),
            TAKEN: (AGAIN, 1, 2),
            ANSWERED: (AGAIN, 1, 2),
            RECORDED: (DONE, 1, 1),
        },
    ),
    "look-up": (
        a_lookup_contract(lookup=LOOKS),
        {
            OPENED: (LATER, 1, 1),
            MARKED: (AGAIN, 1, 1),
            TAKEN: (ASKED, 1, 1),
            ANSWERED: (ASKED, 1, 1),
            RECORDED: (DONE, 1, 1),
        },
    ),
}
"""By contract and point: the job's state and how each of its sends was closed, the effects, the writes that arrived."""


class Books:
    """A receiver that does each write as it arrives, but once for a key, and tells by key what it has done."""

    def __init__(self, folder: Path, *, recognises: bool) -> None:
        self._folder, self._recognises = folder, recognises
        self._done: dict[str, str] = {}
        self.effects: Counter[str] = Counter()
        self.writes: Counter[str] = Counter()

    def __call__(self, connection: socket.socket) -> bytes:
        request = read_all(connection)
        if not request:  # its sender died before the first byte
            return request
        method, path = request.decode().split(" ", 2)[:2]
        name = path.rpartition("/")[2]
        if method == "GET":
            record = self._done.get(name, "")
        else:
            record = name
            self._take(record, request)
            dying.dies(self._folder, TAKEN, int((self._folder / "sender").read_text()))
        body = receipt(record) if record else b"{}"
        head = f"HTTP/1.1 {200 if record else 404} Some\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        connection.close()
        return request

    def _take(self, record: str, request: bytes) -> None:
        named = re.search(rb"(?i)\r\n(?:idempotency|x)-key: (\S+)", request)
        key = named[1].decode() if named else ""
        self.writes[record] += 1
        if not (self._recognises and key in self._done):
            self.effects[record] += 1
        self._done[key] = record


@pytest.mark.parametrize("name", CONTRACTS)
def test_a_sender_killed_around_its_first_send_has_never_two_effects(
    name: str,
    transactional_db: None,
    tmp_path: Path,
    settings: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the rows with the key, after the mark, after the last byte, after the answer, after the outcome; one job each."""
    contract, expected = CONTRACTS[name]
    install(settings, WORKFLOWS)
    books = Books(tmp_path, recognises=name == "key")
    with (
        installed(tmp_path, monkeypatch, dying="tests.crash.dying:Dying"),
        FaultServer(*[books] * 60) as server,
        clusters.starting(tmp_path) as start,
    ):
        d = Dispatching.make(
            server.url, contract.model_copy(update={"connector": "dying", "timeouts": TIMES})
        )
        path = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH", "")]))
        start(WORKFLOWS, workers=2, slots=2, PYTHONPATH=path, **{dying.FOLDER: tmp_path})
        jobs = {point: _killed_at(point, d, tmp_path, expected[point][0]) for point in expected}
        last = d.ready("last")
        eventually(
            lambda: states(d, last) == ("CONFIRMED", ["CONFIRMED"]), what="a send that nobody disturbs"
        )
    found = {
        point: (_came_to(d, job), books.effects[point], books.writes[point]) for point, job in jobs.items()
    }
    assert found == expected


def _killed_at(point: str, d: Dispatching, folder: Path, came_to: tuple[str, list[str]]) -> Job:
    """A job whose sender was killed there, once it has come to what it should, and nobody has its item any more."""
    (folder / "sender").unlink(missing_ok=True)
    (folder / point).touch()
    job = d.ready(point)
    if point == RECORDED:
        eventually(lambda: d.job_state(job) == "CONFIRMED", what="the outcome")
        dying.dies(folder, RECORDED, int((folder / "sender").read_text()))
    eventually(lambda: not (folder / point).exists(), what=f"the end of the sender, {point}")
    eventually(lambda: _came_to(d, job) == came_to, seconds=40, what=f"what came of it, {point}: {came_to}")
    item = d.item(d.operation(job))
    assert item.worker_id is not None
    eventually(lambda: d.item(d.operation(job)).state_name is not ItemState.RUNNING, what="the item let go")
    return job


def _came_to(d: Dispatching, job: Job) -> tuple[str, list[str]]:
    return d.job_state(job), [s.outcome for s in d.submissions(job)]
