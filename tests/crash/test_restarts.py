"""Every process ends between one commit and what follows it: the rows tell the next ones where to go on, once."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import psycopg
import pytest
from django.utils import timezone

from access.tenancy import reading
from approvals.models import Decision, Proposal
from dispatch.contracts import Lookup
from reconciliation.models import Case
from tests import clusters
from tests.crash import proposing
from tests.dispatch.faults import FaultServer, read_all
from tests.dispatch.world import Dispatching, a_contract, a_lookup_contract, receipt
from tests.support import awaiting_locks, eventually, forget_workflows, install
from workflows.actions.submit import submit_job
from workflows.models import Job, JournalEntry, Stage, Worker, WorkItem
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
WORKFLOWS = "tests.crash.proposing"
POLLS = Lookup(
    path="/operations/{operation_key}", authoritative=True, schedule=(0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)
)
REPEATS = 50


@pytest.fixture(autouse=True)
def _own_workflow(settings: Any) -> Iterator[None]:
    install(settings, WORKFLOWS, "tests.workflows_for_tests")
    yield
    forget_workflows()


@pytest.fixture
def start(transactional_db: None, tmp_path: Path) -> Iterator[clusters.Start]:
    with clusters.starting(tmp_path) as starting:
        yield starting


class LaterReceiver:
    """Accepts each write, and does it when the test says so; tells by key whether it has."""

    def __init__(self) -> None:
        self.done, self.asked, self.may_answer = Event(), Event(), Event()
        self.writes: list[str] = []
        self.looks = 0

    def __call__(self, connection: socket.socket) -> bytes:
        request = read_all(connection)
        if not request:
            return request
        method, path = request.decode().split(" ", 2)[:2]
        status, body = 202, b"{}"
        if method == "GET":
            self.looks += 1
            self.asked.set()
            self.may_answer.wait(4)
            status, body = (200, receipt(self.writes[0])) if self.done.is_set() else (404, b"{}")
        else:
            self.writes.append(path.rpartition("/")[2])
        connection.sendall(f"HTTP/1.1 {status} Some\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        connection.close()
        return request


def test_after_a_restart_what_was_submitted_is_asked_about_and_not_sent_again(start: clusters.Start) -> None:
    """A4: the whole cluster is killed when SUBMITTED and the receiver's 202 are committed, in the middle of its first
    look-up; the next one only asks."""
    receiver = LaterReceiver()
    with FaultServer(*[receiver] * 200) as server:
        d = Dispatching.make(
            server.url,
            a_lookup_contract(
                proves_after=None, lookup=POLLS, confirmation="later", confirmation_within=3600
            ),
        )
        killed = start("tests.workflows_for_tests", workers=2, slots=2)
        job = d.ready("V-1")
        eventually(lambda: [s.outcome for s in d.submissions(job)] == ["pending"], what="the 202, recorded")
        eventually(receiver.asked.is_set, what="a look-up, which has no answer yet")
        killed.kill()
        receiver.may_answer.set()
        assert d.job_state(job) == "SUBMITTED"
        assert d.observations(job) == []
        looks = receiver.looks

        start("tests.workflows_for_tests", workers=2, slots=2)
        eventually(lambda: receiver.looks > looks, seconds=30, what="a look-up by the next one")
        receiver.done.set()
        eventually(lambda: d.job_state(job) == "CONFIRMED", seconds=30, what="the confirmation")
    assert receiver.writes == ["V-1"]
    assert [s.outcome for s in d.submissions(job)] == ["pending"]
    moves = [(e.from_state, e.to_state) for e in _entries(d, job.pk) if e.from_state != e.to_state]
    assert moves[-2:] == [("READY_TO_COMMIT", "SUBMITTED"), ("SUBMITTED", "CONFIRMED")]
    assert len(set(moves)) == len(moves)


def test_job_goes_on_though_whoever_committed_the_proposal_or_the_approval_died_at_once(
    start: clusters.Start, tmp_path: Path
) -> None:
    """B10: the worker right after the draft's commit, and the process of the manager right after the decision's."""
    receiver = LaterReceiver()
    receiver.done.set()
    receiver.may_answer.set()
    (tmp_path / proposing.DIE).touch()
    with FaultServer(*[receiver] * 200) as server:
        d = Dispatching.make(server.url, a_lookup_contract(proves_after=None, lookup=POLLS))
        d.world.policy()
        start(WORKFLOWS, workers=1, slots=1)
        job_id = _submit(d, tmp_path, record="V-1")
        job = Job(pk=job_id, tenant_id=d.tenant_id)
        eventually(lambda: d.job_state(job) == "AWAITING_APPROVAL", seconds=30, what="the proposal")
        assert not (tmp_path / proposing.DIE).exists()
        died = Worker.objects.get(pid=int((tmp_path / proposing.DIED).read_text()))
        eventually(lambda: Worker.objects.get(pk=died.pk).ended_at is not None, what="its takeover")
        with reading(d.tenant_id):
            assert Proposal.objects.filter(job_id=job_id).count() == 1
        proposal = d.world.proposal(job)
        killed = subprocess.run(
            [sys.executable, "-c", _DECIDE_AND_DIE, str(d.tenant_id), str(proposal.pk),
             str(d.world.manager.pk), proposal.digest],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings", "COUNTERFOIL_WORKFLOWS": WORKFLOWS},
            check=False,
        )  # fmt: skip
        assert killed.returncode == -signal.SIGKILL
        eventually(lambda: d.job_state(job) == "CONFIRMED", seconds=30, what="the outcome")
    assert receiver.writes == ["V-1"]
    with reading(d.tenant_id):
        assert Decision.objects.filter(proposal=proposal).count() == 1


_DECIDE_AND_DIE = """
import os, signal, sys
import django
django.setup()
from django.utils import timezone
from approvals.actions.decide import record_decision
record_decision(tenant_id=int(sys.argv[1]), proposal_id=int(sys.argv[2]), person_id=int(sys.argv[3]),
                digest=sys.argv[4], verdict="approve", reason="", now=timezone.now())
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_two_processes_that_commit_the_last_two_items_together_make_one_proposal(
    start: clusters.Start, tmp_path: Path
) -> None:
    """B11: each of two has one of the last two. Both batches wait for the job's lock, and are let go in the same instant."""
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    d.world.policy()
    start(WORKFLOWS, workers=2, slots=1)
    jobs = [_together(d, tmp_path, f"V-{n}") for n in range(REPEATS)]
    for job_id in jobs:
        job = Job(pk=job_id, tenant_id=d.tenant_id)
        eventually(lambda job=job: d.job_state(job) == "AWAITING_APPROVAL", what="the proposal")
    with reading(d.tenant_id):
        assert Proposal.objects.count() == REPEATS
        for name in ("work", "propose"):
            assert Stage.objects.filter(name=name).count() == REPEATS
        assert WorkItem.objects.filter(stage__name="propose").count() == REPEATS
        assert JournalEntry.objects.filter(event="proposal.frozen").count() == REPEATS


def test_two_processes_whose_last_two_items_fail_together_open_one_case_for_each(
    start: clusters.Start, tmp_path: Path
) -> None:
    """B11: what is told of a failure is told once, though both find it."""
    d = Dispatching.make("http://127.0.0.1:9", a_contract())
    start(WORKFLOWS, workers=2, slots=1)
    for n in range(5):
        job_id = _together(d, tmp_path, f"V-{n}", refuse=True)
        eventually(lambda job_id=job_id: len(_cases(d, job_id)) == 2, what="two cases")
        told = [e.event for e in _entries(d, job_id)]
        assert told.count("item.refused") == 2
    with reading(d.tenant_id):
        assert Case.objects.count() == 10


def _together(d: Dispatching, folder: Path, record: str, **more: Any) -> int:
    """A job whose two parts end in two processes, whose batches both wait for the job until both are there."""
    job_id = _submit(d, folder, record=record, parts=2, gate=f"go-{record}", **more)
    eventually(lambda: _running(d, job_id) == 2, what="a part in each process")
    with (
        psycopg.connect(os.environ["DATABASE_URL"]) as holding,
        psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as watching,
    ):
        holding.execute("SELECT 1 FROM workflows_job WHERE id = %s FOR UPDATE", [job_id])
        (folder / f"go-{record}").touch()
        eventually(lambda: awaiting_locks(watching) >= 2, what="both batches at the job's lock")
        holding.rollback()
    return job_id


def _running(d: Dispatching, job_id: int) -> int:
    with reading(d.tenant_id):
        running = WorkItem.objects.filter(job_id=job_id, stage__name="work", state=ItemState.RUNNING.number)
        return running.values("worker_id").distinct().count()


def _cases(d: Dispatching, job_id: int) -> list[Case]:
    with reading(d.tenant_id):
        return list(Case.objects.filter(job_id=job_id))


def _submit(d: Dispatching, folder: Path, **value: Any) -> int:
    return submit_job(
        tenant_id=d.tenant_id,
        workflow="test-changes",
        value={"folder": str(folder), **value},
        submission_key=secrets.token_hex(8),
        person_id=d.world.submitter.pk,
        source="tests",
        now=timezone.now(),
    ).job_id


def _entries(d: Dispatching, job_id: int) -> list[JournalEntry]:
    with reading(d.tenant_id):
        return list(JournalEntry.objects.filter(job_id=job_id).order_by("sequence"))
