"""A database that goes away while work runs: real servers, real workers, and the provider's own list as the judge.

In each of these: every question was asked once, no attempt failed, the workers are the ones that were there before.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from access.tenancy import reading
from examples.demos.workers import Cluster, live_workers
from examples.management.sample import MANAGER, SECOND_MANAGER
from tests.faults.servers import OnOwnServer, OwnServer, installed_on, own_server, pass_time
from tests.support import eventually, forget_workflows
from workflows import verification
from workflows.models import Attempt, Worker
from workflows.states import JobState

pytestmark = [pytest.mark.processes, pytest.mark.long]
QUESTIONS = 1 + 20 + 20
"""Of one expense policy: its rules are listed, each is written, each gets a test."""
LATENCY = 0.4
"""Seconds a question takes, so that an outage meets all kinds: asked, answered, saved."""


@pytest.fixture(autouse=True)
def _own_workflows() -> Iterator[None]:
    """The examples', in place of the misbehaving ones."""
    forget_workflows()
    yield
    forget_workflows()


@pytest.fixture(scope="module")
def place(django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OnOwnServer]:
    folder: Path = tmp_path_factory.mktemp("own")
    with django_db_blocker.unblock(), own_server() as server, installed_on(server, folder) as made:
        yield made


@contextmanager
def workers_on(place: OnOwnServer, **options: Any) -> Iterator[Cluster]:
    """A cluster for one test, and a provider that takes its time."""
    place.on.provider.clear_calls()
    place.on.provider.set_script(
        *[{"match": {"task": t}, "function": t, "latency": LATENCY} for t in ("write-rule", "write-test")]
    )
    running = place.cluster(**options)
    try:
        yield running
    finally:
        connection.close()
        if not place.server.accepts():
            place.server.start()
        running.stop()
        eventually(lambda: live_workers() == [], what="no worker")


def saved(place: OnOwnServer, job_id: int) -> int:
    """Answers of the model that are saved."""
    with reading(place.on.tenant_id):
        rows = Attempt.objects.filter(item__job_id=job_id, outcome="succeeded", route__gt="")
        return rows.count()


def outcomes(place: OnOwnServer, job_id: int) -> Counter[str]:
    with reading(place.on.tenant_id):
        rows = Attempt.objects.filter(item__job_id=job_id).exclude(item__stage__kind="machine")
        return Counter(rows.values_list("outcome", flat=True))


def some_saved(place: OnOwnServer, job_id: int, *, at_least: int = 4) -> None:
    eventually(lambda: saved(place, job_id) >= at_least, seconds=30, what=f"{at_least} saved answers")


def asked_once(place: OnOwnServer, job_id: int) -> None:
    """The job's steps are done: every question was asked and answered once, and no attempt of any step failed."""
    place.on.wait_for_state(job_id, JobState.AWAITING_APPROVAL, seconds=120)
    asked = Counter(place.asked())
    assert sum(asked.values()) == len(asked) == QUESTIONS, asked.most_common(5)
    assert set(outcomes(place, job_id)) <= {"succeeded", "released"}
    assert verification.verify_jobs(job_id=job_id).bad is None


def approve_and_confirm(place: OnOwnServer, job_id: int) -> None:
    for handle in (MANAGER, SECOND_MANAGER):
        place.on.approve(job_id, handle)
    place.on.wait_for_state(job_id, JobState.CONFIRMED, seconds=60)


def test_postgresql_that_is_stopped_and_started_costs_nothing_but_time(
    place: OnOwnServer,
) -> None:
    with workers_on(place) as running:
        before = [(w.pk, w.pid) for w in live_workers()]
        job = place.policy("STOP")
        some_saved(place, job)
        connection.close()
        place.server.stop()
        asked = len(place.calls())
        pass_time(20)
        assert len(place.calls()) - asked <= 4, "what runs may end; nothing new is begun without a claim"
        place.server.start()
        asked_once(place, job)
        assert [(w.pk, w.pid) for w in live_workers()] == before
        assert "results are kept" in running.log_text


def test_server_that_is_killed_comes_back_with_everything_that_was_committed(place: OnOwnServer) -> None:
    with workers_on(place):
        job = place.policy("KILL")
        some_saved(place, job)
        connection.close()
        place.server.kill()
        place.server.start()
        asked_once(place, job)


def test_outage_that_is_longer_than_the_lease_repeats_nothing_that_was_answered(place: OnOwnServer) -> None:
    """Every lease has run out when the server is back: whose worker lives renews it before anybody takes it over."""
    with workers_on(place, lease=4):
        before = [(w.pk, w.pid) for w in live_workers()]
        job = place.policy("LEASE")
        some_saved(place, job)
        connection.close()
        place.server.stop()
        pass_time(10)
        place.server.start()
        asked_once(place, job)
        assert [(w.pk, w.pid) for w in live_workers()] == before


def test_worker_that_comes_back_later_than_the_others_after_an_outage_is_not_taken_over(
    place: OnOwnServer,
) -> None:
    """Its lease ran out while the server was away. It is frozen while the other one is back, then goes on."""
    with workers_on(place, workers=2, slots=1, lease=4):
        late, prompt = live_workers()
        job = place.policy("LATE")
        some_saved(place, job)
        connection.close()
        place.server.stop()
        pass_time(6)
        os.kill(late.pid, signal.SIGSTOP)
        try:
            place.server.start()
            eventually(
                lambda: _lease(prompt.pk) > timezone.now(), seconds=10, what="the lease of the prompt one"
            )
            first = _lease(prompt.pk)
            eventually(lambda: _lease(prompt.pk) > first, seconds=10, what="its next renewal, a second later")
        finally:
            os.kill(late.pid, signal.SIGCONT)
        asked_once(place, job)
        assert [w.pk for w in live_workers()] == [late.pk, prompt.pk]


def _lease(worker: int) -> datetime:
    return Worker.objects.values_list("lease_until", flat=True).get(pk=worker)


ENGINE = "application_name LIKE 'counterfoil %'"


@pytest.mark.parametrize(
    "which",
    [
        pytest.param("application_name = 'counterfoil committer'", id="committers"),
        pytest.param("application_name = 'counterfoil liveness'", id="liveness"),
        pytest.param(f"NOT {ENGINE}", id="slots, advancers, web"),
        pytest.param("true", id="all"),
    ],
)
def test_sessions_that_are_cut_again_and_again_lose_nothing(place: OnOwnServer, which: str) -> None:
    with workers_on(place):
        before = [(w.pk, w.pid) for w in live_workers()]
        job = place.policy(f"CUT-{abs(hash(which))}")
        cut = 0
        for at_least in (2, 8, 16, 24, 32):
            some_saved(place, job, at_least=at_least)
            connection.close()
            cut += place.server.cut(f"datname = 'counterfoil' AND ({which})")
        assert cut >= 5
        asked_once(place, job)
        assert [(w.pk, w.pid) for w in live_workers()] == before


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        pytest.param(
            "ALTER SYSTEM SET default_transaction_read_only = on",
            "ALTER SYSTEM RESET default_transaction_read_only",
            id="read-only",
        ),
        pytest.param(
            "ALTER DATABASE counterfoil CONNECTION LIMIT 0",
            "ALTER DATABASE counterfoil CONNECTION LIMIT -1",
            id="too many connections",
        ),
    ],
)
def test_server_that_does_not_take_our_work_gets_it_later(place: OnOwnServer, begin: str, end: str) -> None:
    with workers_on(place):
        before = [(w.pk, w.pid) for w in live_workers()]
        job = place.policy(f"REFUSE-{abs(hash(begin))}")
        some_saved(place, job)
        connection.close()
        place.server.run(begin, "SELECT pg_reload_conf()")
        place.server.cut("datname = 'counterfoil'")
        pass_time(5)
        place.server.run("SET default_transaction_read_only = off", end, "SELECT pg_reload_conf()")
        asked_once(place, job)
        assert [(w.pk, w.pid) for w in live_workers()] == before


def test_answer_of_a_receiver_that_cannot_be_saved_is_saved_later(place: OnOwnServer) -> None:
    """The ERP answers after 4 s, and the server is gone by then: one request, one effect, CONFIRMED."""
    with workers_on(place):
        job = place.policy("SEND", contract="neither")
        place.on.wait_for_state(job, JobState.AWAITING_APPROVAL, seconds=60)
        sent = len(_posts(place))
        place.on.erp.set_fault("slow", path="/neither/policies", seconds=4)
        for handle in (MANAGER, SECOND_MANAGER):
            place.on.approve(job, handle)
        eventually(lambda: len(_posts(place)) > sent, what="the request")
        connection.close()
        place.server.stop()
        pass_time(20)
        place.server.start()
        place.on.wait_for_state(job, JobState.CONFIRMED, seconds=60)
        assert len(_posts(place)) == sent + 1


def test_send_that_is_in_the_air_at_sigterm_is_recorded_before_the_process_ends(place: OnOwnServer) -> None:
    """A14: the ERP answers after 4 s, and the workers are asked to stop as soon as it has the request."""
    with workers_on(place, workers=1) as running:
        job = place.policy("DEPLOY", contract="neither")
        place.on.wait_for_state(job, JobState.AWAITING_APPROVAL, seconds=60)
        effects, sent = len(place.on.erp.effects()), len(_posts(place))
        place.on.erp.set_fault("slow", path="/neither/policies", seconds=4)
        for handle in (MANAGER, SECOND_MANAGER):
            place.on.approve(job, handle)
        eventually(lambda: len(_posts(place)) > sent, what="the request")
        running.stop()
        assert place.on.job(job).state == JobState.CONFIRMED
        assert (len(place.on.erp.effects()), len(_posts(place))) == (effects + 1, sent + 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system")
def test_full_disk_is_waited_out(django_db_blocker: Any, tmp_path: Path) -> None:
    """The whole server on a file system of 400 MB that a large file fills: no WAL, no rows, no restart."""
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m,mode=711", "tmpfs", small], check=True)
    try:
        for folder in small.parents:
            if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
                folder.chmod(folder.stat().st_mode | 0o011)
        with (
            django_db_blocker.unblock(),
            own_server(small) as server,
            installed_on(server, tmp_path) as place,
            workers_on(place),
        ):
            job = place.policy("FULL")
            some_saved(place, job)
            connection.close()
            filler = _fill(small)
            eventually(lambda: _cannot_write(server), seconds=30, what="a server that cannot write")
            pass_time(10)
            filler.unlink()
            eventually(lambda: _serves(server), seconds=60, what="the server")
            asked_once(place, job)
    finally:
        subprocess.run(["umount", "--lazy", small], check=True)


def _posts(place: OnOwnServer) -> list[Any]:
    return [r for r in place.on.erp.requests(path="/neither/policies") if r["method"] == "POST"]


def _fill(folder: Path) -> Path:
    filler = folder / "filler"
    with filler.open("wb") as out:
        block = b"\0" * 65536
        try:
            while out.write(block):
                out.flush()
        except OSError:
            pass
    return filler


def _cannot_write(server: OwnServer) -> bool:
    """Writing a megabyte fails: the disk is full, or the server has gone down over it."""
    try:
        server.run("SELECT pg_logical_emit_message(false, 'full', repeat('x', 1000000))", "CHECKPOINT")
    except Exception:
        return True
    return False


def _serves(server: OwnServer) -> bool:
    """Up, and started again by hand if it could not go on."""
    if server.has_ended():
        server.start()
    return server.accepts()
