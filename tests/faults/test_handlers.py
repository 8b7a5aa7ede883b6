"""What a handler can do to its worker, and what comes of it: the table in docs/engine.md, line by line."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from examples.demos.workers import Cluster, live_workers
from reconciliation.kinds import CaseKind
from tests.faults.conftest import ActingJob
from tests.support import eventually
from workflows.models import Worker
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

StartCluster = Callable[..., Cluster]
Submit = Callable[..., ActingJob]
LONG = pytest.mark.long
DONE, EXHAUSTED, REFUSED = ItemState.SUCCEEDED, ItemState.EXHAUSTED, ItemState.REFUSED


def test_handler_that_hangs_is_left_behind_and_its_late_answer_is_not_used(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """One slot of two hangs; its attempt ends at the time limit, and the next one runs beside it in the same process."""
    cluster(slots=2)
    job = acting_job("hang-once", "fine", hasty=True)
    job.settled(DONE, DONE)
    assert job.said() == {1: 2, 2: "fine"}
    assert job.outcomes(1) == {"timed out": 1, "succeeded": 1}
    assert "TimedOut: It took longer than the 1.5 s" in job.errors(1)[0]

    job.go()
    eventually(lambda: job.outcomes(1)["stale"], what="the late answer")
    assert job.said() == {1: 2, 2: "fine"}
    assert job.outcomes(1) == {"timed out": 1, "succeeded": 1, "stale": 1}
    assert len({s.pid for s in job.starts()}) == 1


@LONG
def test_handlers_that_hang_in_every_slot_cost_the_process_and_not_the_work(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """Two slots; the second time that both hang, as many are left behind as there are slots."""
    started = cluster(slots=2)
    job = acting_job("hang", "hang", "fine", "fine", hasty=True)
    job.settled(EXHAUSTED, EXHAUSTED, DONE, DONE)
    assert job.outcomes() == {"timed out": 6, "succeeded": 2}
    assert "2 handlers outstayed their time and still run" in started.log_text
    assert len({s.pid for s in job.starts()}) >= 2


def test_whatever_a_handler_raises_or_returns_ends_its_attempt_and_nothing_else(
    cluster: StartCluster, acting_job: Submit
) -> None:
    cluster(slots=1)
    told = {
        "sys-exit": "SystemExit: enough",
        "keyboard-interrupt": "KeyboardInterrupt",
        "generator-exit": "GeneratorExit",
        "base-exception": "Odd: odd",
        "undescribable": "fails when it is asked",
        "recurse": "RecursionError",
        "fifty-megabytes": "at most 10,000,000 can be kept",
        "unwritable-usage": "The database refused to store",
    }
    job = acting_job(*told, "fine")
    job.settled(*[EXHAUSTED] * 6, REFUSED, REFUSED, DONE)
    for number, words in enumerate(told.values(), start=1):
        assert all(words in error for error in job.errors(number)), job.errors(number)
    assert job.outcomes() == {"retryable": 6 * 3, "permanent": 2, "succeeded": 1}
    assert len({s.pid for s in job.starts()}) == 1


@pytest.mark.parametrize(
    "act", ["os-exit", pytest.param("sigkill", marks=LONG), pytest.param("segfault", marks=LONG)]
)
def test_handler_that_ends_its_process_stops_after_three_and_takes_nobody_with_it(
    cluster: StartCluster, acting_job: Submit, act: str
) -> None:
    cluster(slots=2)
    job = acting_job("fine", "fine", act, "fine", "fine")
    job.settled(DONE, DONE, EXHAUSTED, DONE, DONE)
    assert job.outcomes(3) == {"worker died": 3}
    assert len(job.starts(3)) == 3
    assert max(len(job.starts(n)) for n in (1, 2, 4, 5)) <= 2
    (case,) = eventually(job.cases, what="a case about what stopped three workers")
    assert (case.kind, case.item and case.item.ordinal, case.resolved_at) == (
        CaseKind.RETRY_EXHAUSTED,
        3,
        None,
    )
    assert case.title == "Act 3 of 5: it stopped its worker 3 times"


def test_handler_that_sends_sigterm_stops_its_worker_in_good_order(
    cluster: StartCluster, acting_job: Submit
) -> None:
    cluster(slots=1)
    job = acting_job("sigterm-once")
    job.settled(DONE)
    stopped = job.starts()[0].pid
    eventually(lambda: not _runs(stopped), what="the end of the process")
    after = acting_job("fine")
    after.settled(DONE)
    assert job.outcomes() == after.outcomes() == {"succeeded": 1}


@pytest.mark.parametrize("act", ["kill-an-engine-thread", pytest.param("close-every-file", marks=LONG)])
def test_engine_that_was_broken_ends_its_process_and_nothing_is_lost(
    cluster: StartCluster, acting_job: Submit, act: str
) -> None:
    cluster(slots=2)
    job = acting_job("fine", act, "fine")
    job.settled(DONE, DONE, DONE)
    assert job.said()[2] in (1, 2)


@LONG
def test_committer_that_cannot_record_ends_its_process(cluster: StartCluster, acting_job: Submit) -> None:
    started = cluster(slots=1)
    job = acting_job("break-the-committer", "fine")
    job.settled(DONE, DONE, seconds=60)
    assert job.said() == {1: 2, 2: "fine"}
    assert "nothing can be recorded, and not because of the database" in started.log_text


@LONG
def test_handler_that_never_lets_go_of_the_interpreter_loses_its_lease_and_then_its_process(
    cluster: StartCluster, acting_job: Submit
) -> None:
    started = cluster(workers=2, slots=1, lease=2)
    job = acting_job("hold-the-interpreter", "fine")
    job.settled(DONE, DONE)
    held = job.starts(1)[0].pid
    assert job.outcomes(1) == {"lease lost": 1, "succeeded": 1}
    assert job.starts(1)[1].pid != held
    eventually(lambda: not _runs(held), seconds=90, what="the end of the process")
    assert "Timeout (0:01:00)!" in started.log_text
    eventually(lambda: len(live_workers()) == 2, seconds=30, what="another worker in its place")


@LONG
def test_memory_beyond_the_bound_is_refused_to_who_asks(cluster: StartCluster, acting_job: Submit) -> None:
    cluster(slots=1, COUNTERFOIL_WORKER_MEMORY_MB="400")
    job = acting_job("eat-memory", "fine")
    job.settled(EXHAUSTED, DONE)
    assert all("MemoryError" in error for error in job.errors(1))
    assert len({s.pid for s in job.starts()}) == 1


def test_process_that_has_grown_too_large_gives_way_to_another(
    cluster: StartCluster, acting_job: Submit
) -> None:
    started = cluster(slots=1, COUNTERFOIL_WORKER_MEMORY_MB="400")
    first = live_workers()
    job = acting_job("keep-memory")
    job.settled(DONE)
    eventually(lambda: live_workers() and live_workers() != first, what="another worker")
    after = acting_job("fine")
    after.settled(DONE)
    assert job.outcomes() == {"succeeded": 1}
    assert "COUNTERFOIL_WORKER_MEMORY_MB is 400" in started.log_text
    assert not _runs(job.starts()[0].pid)


@LONG
def test_process_with_leaked_threads_gives_way_to_another(cluster: StartCluster, acting_job: Submit) -> None:
    """Threads that keep a process from ending do not keep this one."""
    cluster(slots=1)
    job = acting_job("leak-threads")
    job.settled(DONE)
    leaking = job.starts()[0].pid
    eventually(lambda: not _runs(leaking), what="the end of the process")
    after = acting_job("fine")
    after.settled(DONE)
    assert after.starts()[0].pid != leaking


def test_child_that_a_handler_forks_holds_nothing_of_the_worker(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """The child lives on when the worker is killed: its lock is free at once nonetheless."""
    cluster(slots=2, lease=30)
    job = acting_job("fork-and-stay", "gated")
    (child,) = eventually(lambda: job.notes("children"), what="a child")
    eventually(lambda: job.starts(2), what="the gated item")
    eventually(lambda: not _open_sockets(int(child)), what="a child without sockets")
    worker = job.starts(2)[0].pid
    os.kill(worker, 9)
    assert _runs(int(child))
    eventually(
        lambda: len(job.starts(2)) == 2, seconds=10, what="the item elsewhere, long before the lease ends"
    )
    job.go()
    job.settled(DONE, DONE)


def test_sessions_that_handlers_change_are_clean_for_the_next_item(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """One slot, so that each item would inherit what the one before it left."""
    cluster(slots=1)
    acts = ["close-the-connection", "fine", "leave-a-transaction-open", "fine", "change-the-session", "fine"]
    job = acting_job(*acts)
    job.settled(*[DONE] * 6)
    assert job.outcomes() == {"succeeded": 6}
    assert _sessions_alive(job.notes("sessions")) == 0


def test_what_belongs_to_the_attempt_ends_with_it(cluster: StartCluster, acting_job: Submit) -> None:
    cluster(slots=1)
    acts = ["read-the-context", "change-the-context", "read-the-context", "event-loop", "event-loop"]
    job = acting_job(*acts, "fork-and-return", "fine")
    job.settled(*[DONE] * 7)
    assert job.said() == {1: "28", 2: "2", 3: "28", 4: "told", 5: "told", 6: "parent", 7: "fine"}
    assert job.outcomes() == {"succeeded": 7}


def test_what_belongs_to_the_process_may_be_changed_and_the_engine_goes_on(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """Folder, environment, time zone, umask, locale: gone or changed, and the connections are cut after it."""
    cluster(slots=1)
    job = acting_job("change-the-process", "set-a-signal-handler", "print-a-lot", "monkeypatch-once", "fine")
    job.settled(*[DONE] * 5)
    assert "only works in main thread" in job.said()[2]
    _cut_sessions()
    after = acting_job("fine")
    after.settled(DONE)
    assert {s.pid for s in after.starts()} == {s.pid for s in job.starts()}
    assert Worker.objects.filter(ended_at__isnull=True).count() == 1


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def _open_sockets(pid: int) -> list[str]:
    links = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
    return [link for link in links if link.startswith("socket:")]


def _sessions_alive(pids: list[str]) -> int:
    from django.db import connection

    assert pids
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(%s)", [[int(p) for p in pids]])
        return int(cursor.fetchone()[0])


def _cut_sessions() -> None:
    import psycopg

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        cut = owner.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name LIKE 'counterfoil %'"
        ).fetchone()
    assert cut is not None
    assert cut[0] >= 2
