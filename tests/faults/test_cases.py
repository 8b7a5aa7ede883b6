"""Faults that other systems had, as trials: each names its case in tests/cases.md."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.utils import timezone
from django_q.models import OrmQ, Schedule
from django_q.tasks import async_task

from access.models import Membership
from access.roles import Role
from access.tenancy import reading
from config.var import PROJECT
from examples.demos.workers import Cluster, live_workers
from tests.faults.conftest import ActingJob
from tests.faults.test_web import web
from tests.support import awaiting_locks, eventually
from workflows import tasks
from workflows.actions import submit
from workflows.checks import queue_settings
from workflows.engine.liveness import TAKEOVER_CLASS
from workflows.models import Job, JournalEntry, Stage, Worker, WorkItem
from workflows.states import ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]

StartCluster = Callable[..., Cluster]
Submit = Callable[..., ActingJob]
DONE = ItemState.SUCCEEDED


def test_doorbell_that_rings_ten_times_while_an_item_runs_starts_nothing_twice(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """A1: the queue may hand its task out again and again; it only looks whether the engine lives."""
    cluster(workers=2, slots=1)
    job = acting_job("gated")
    eventually(job.starts, what="a run")
    before = live_workers()
    for _ in range(10):
        async_task("workflows.tasks.check_engine")
    eventually(lambda: not OrmQ.objects.exists(), seconds=30, what="an empty queue")
    job.go()
    job.settled(DONE)
    assert len(job.starts()) == 1
    assert [w.pk for w in live_workers()] == [w.pk for w in before]


@pytest.mark.parametrize("change", [{"timeout": None}, {"retry": 30, "timeout": 30}, {"max_attempts": 0}])
def test_settings_under_which_the_queue_would_run_a_task_again_are_refused(
    settings: object, change: dict[str, object]
) -> None:
    """A1."""
    settings.Q_CLUSTER = {**settings.Q_CLUSTER, **change}  # type: ignore[attr-defined]
    assert len(queue_settings()) == 1


def test_jobs_are_done_although_the_queues_rows_and_the_secret_key_are_gone(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """A5."""
    tasks.ensure_schedule()
    async_task("workflows.tasks.check_engine")
    jobs = [acting_job("fine") for _ in range(5)]
    OrmQ.objects.all().delete()
    Schedule.objects.all().delete()
    cluster(slots=2, COUNTERFOIL_SECRET_KEY=secrets.token_hex(32))
    for job in jobs:
        job.settled(DONE)
    assert [len(job.starts()) for job in jobs] == [1] * 5


def test_job_that_is_not_committed_is_seen_by_nobody_and_one_that_is_needs_no_callback(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """A7: the work is announced inside the transaction; the process that committed it may die in the same instant."""
    cluster(slots=1)
    job = acting_job()
    with reading(job.tenant.pk):
        person = Membership.objects.get(role=Role.SUBMITTER).person_id

    class Undone(Exception):
        pass

    real = submit.journal.transition  # the last thing that the action does inside its transaction

    def and_then_fail(**values: object) -> None:
        real(**values)  # type: ignore[arg-type]
        raise Undone

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submit.journal, "transition", and_then_fail)
        with pytest.raises(Undone):
            _submit(job, person, "rolled-back")
    killed = subprocess.run(
        [sys.executable, "-c", _SUBMIT_AND_DIE, str(job.tenant.pk), str(person), str(job.folder)],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "config.settings",
             "COUNTERFOIL_WORKFLOWS": "tests.faults.handlers"},
        check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    eventually(lambda: len(job.notes("starts")) == 1, what="the one item of the committed job")
    with reading(job.tenant.pk):
        assert Job.objects.exclude(pk=job.job_id).count() == 1


_SUBMIT_AND_DIE = """
import os, signal, sys
import django
django.setup()
from django.utils import timezone
from workflows.actions.submit import submit_job
submit_job(tenant_id=int(sys.argv[1]), workflow="test-patient", value={"folder": sys.argv[3], "acts": ["fine"]},
           submission_key="dies", person_id=int(sys.argv[2]), source="tests", now=timezone.now())
os.kill(os.getpid(), signal.SIGKILL)
"""


def _submit(job: ActingJob, person: int, key: str) -> None:
    submit.submit_job(
        tenant_id=job.tenant.pk, workflow="test-patient", value={"folder": str(job.folder), "acts": ["fine"]},
        submission_key=key, person_id=person, source="tests", now=timezone.now(),
    )  # fmt: skip


def test_schedule_is_one_row_however_many_start_at_once(transactional_db: None) -> None:
    """A9."""

    def ensure() -> None:
        tasks.ensure_schedule()
        connection.close()

    threads = [threading.Thread(target=ensure) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tasks.ensure_schedule()
    assert Schedule.objects.count() == 1


def test_sweeps_and_takeovers_go_on_after_one_was_killed_in_the_middle(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """A10: whoever takes a worker over dies while it holds the lock for that; the lock ends with the session."""
    cluster(workers=1, slots=1)
    (dead,) = live_workers()
    job = acting_job("gated")
    eventually(job.starts, what="a run")
    janitor = subprocess.Popen(
        [sys.executable, "-c", _HOLD, os.environ["DATABASE_URL"], str(dead.pk)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert janitor.stdout is not None
    assert janitor.stdout.readline() == "held\n"
    os.kill(dead.pid, signal.SIGKILL)
    eventually(lambda: len(live_workers()) == 2, seconds=30, what="another worker beside the dead one")
    janitor.kill()
    janitor.wait()
    janitor.stdout.close()
    eventually(lambda: len(job.starts()) == 2, what="the item again")
    job.go()
    job.settled(DONE)
    assert job.outcomes() == {"worker died": 1, "succeeded": 1}
    eventually(lambda: Worker.objects.filter(pk__gt=dead.pk, swept_at__isnull=False).exists(), what="a sweep")


_HOLD = f"""
import sys, time, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute("SELECT pg_advisory_xact_lock({TAKEOVER_CLASS}, %s)", [int(sys.argv[2])])
    print("held", flush=True)
    time.sleep(120)
"""


def test_a_takeover_that_was_held_up_ends_no_worker_that_has_renewed_its_lease_meanwhile(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """B2: it has found the lease run out, and waits for the worker's row, whose next renewal is being written."""
    started = cluster(workers=2, slots=1, lease=30)
    job = acting_job("gated")
    (held,) = eventually(job.starts, what="a run")
    holder = Worker.objects.get(pid=held.pid, ended_at=None)
    with _session() as expiring, _session() as renewing, _session(autocommit=True) as watching:
        expiring.execute(f"{_LEASE} - interval '1 s' WHERE id = %s", [holder.pk])
        with ThreadPoolExecutor(1) as pool:
            next_in_line = pool.submit(
                renewing.execute, f"{_LEASE} + interval '30 s' WHERE id = %s", [holder.pk]
            )
            eventually(lambda: _waits(watching, renewing), what="the renewal in line for the row")
            expiring.commit()
            next_in_line.result(20)
        eventually(
            lambda: watching.execute(
                "SELECT 1 FROM pg_stat_activity WHERE application_name = 'counterfoil liveness'"
                " AND query LIKE 'SELECT lease_until%%FOR UPDATE' AND %s = ANY(pg_blocking_pids(pid))",
                [renewing.info.backend_pid],
            ).fetchone(),
            what="the takeover, which has seen the lease run out",
        )
        renewing.commit()
    job.go()
    job.settled(DONE)
    assert job.outcomes() == {"succeeded": 1}
    assert len(job.starts()) == 1
    assert Worker.objects.get(pk=holder.pk).ended_at is None
    assert "took over" not in started.log_text


def test_a_result_that_waits_for_its_job_for_longer_than_the_lease_is_recorded(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """The batch holds its worker's row meanwhile, so that nobody can renew the lease, and nobody can take the worker over."""
    started = cluster(workers=2, slots=1, lease=2)
    job = acting_job("gated")
    (held,) = eventually(job.starts, what="a run")
    holder = Worker.objects.get(pid=held.pid, ended_at=None)
    with _session() as holding, _session(autocommit=True) as watching:
        holding.execute("SELECT 1 FROM workflows_job WHERE id = %s FOR UPDATE", [job.job_id])
        job.go()
        eventually(
            lambda: awaiting_locks(watching) >= 2, what="the batch at the job, and the renewal behind it"
        )
        lease_is_over = "SELECT lease_until < clock_timestamp() FROM workflows_worker WHERE id = %s"
        eventually(
            lambda: watching.execute(lease_is_over, [holder.pk]).fetchone() == (True,), what="the lease's end"
        )
        eventually(lambda: awaiting_locks(watching) >= 3, what="the takeover behind the renewal")
        holding.rollback()
    job.settled(DONE)
    assert job.outcomes() == {"succeeded": 1}
    assert len(job.starts()) == 1
    assert Worker.objects.get(pk=holder.pk).ended_at is None
    assert "took over" not in started.log_text


_LEASE = "UPDATE workflows_worker SET lease_until = clock_timestamp()"


def _session(*, autocommit: bool = False) -> psycopg.Connection[tuple[Any, ...]]:
    return psycopg.connect(os.environ["DATABASE_URL"], autocommit=autocommit)


def _waits(watching: psycopg.Connection[Any], who: psycopg.Connection[Any]) -> bool:
    found = watching.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [who.info.backend_pid])
    return found.fetchone() == (True,)


def test_sweeps_of_two_clusters_that_overlap_move_a_job_on_once(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """A9: two are started beside the first; all three find what a process left that died, and all wait for the job to act on it."""
    cluster(workers=1, slots=1)
    job = acting_job("wait-and-kill-after-the-commit")
    (dying,) = eventually(job.starts, what="a run")
    with _session() as reading_it, _session(autocommit=True) as watching:
        reading_it.execute("SELECT 1 FROM workflows_job WHERE id = %s FOR SHARE", [job.job_id])
        job.go()
        job.settled(DONE)
        for _ in range(2):
            cluster(workers=1, slots=1)
        eventually(
            lambda: Worker.objects.filter(ended_at=None).exclude(pid=dying.pid).count() == 3,
            seconds=30,
            what="two more, and one in the place of the dead",
        )
        eventually(lambda: awaiting_locks(watching) >= 3, seconds=30, what="every sweep at the job's lock")
        reading_it.rollback()
    eventually(lambda: _counted(job) == 1, seconds=30, what="the next step")
    assert Schedule.objects.count() == 1
    with reading(job.tenant.pk):
        assert Stage.objects.filter(job_id=job.job_id, name="count").count() == 1
        closed = JournalEntry.objects.filter(job_id=job.job_id, event="stage.closed").values_list("evidence")
        assert sum('"act"' in evidence for (evidence,) in closed) == 1


def test_whatever_starts_beside_a_worker_leaves_what_it_runs_alone(
    cluster: StartCluster, acting_job: Submit, tmp_path: Path
) -> None:
    """B7: web processes, commands and another cluster start, end and start again while an item runs. Only leases tell."""
    cluster(workers=1, slots=1)
    job = acting_job("gated")
    (first,) = eventually(job.starts, what="a run")
    for _ in range(2):
        with web(tmp_path / "web.log"):
            subprocess.run(
                [sys.executable, "manage.py", "health"], cwd=PROJECT, check=True, stdout=subprocess.DEVNULL
            )
            before = {w.pk for w in live_workers()}
            beside = cluster(workers=1, slots=1)
            newer = Worker.objects.exclude(pk__in=before).filter(swept_at__isnull=False)
            eventually(newer.exists, seconds=30, what="its sweep")
            beside.stop()
    job.go()
    job.settled(DONE)
    assert job.starts() == [first]
    assert job.outcomes() == {"succeeded": 1}
    assert "took over" not in beside.log_text


@pytest.mark.long
def test_retry_and_restart_repeat_only_what_was_not_saved(cluster: StartCluster, acting_job: Submit) -> None:
    """B9: item 6 fails once; every process is killed when eight of ten are saved."""
    killed = cluster(slots=3)
    job = acting_job(*["fine"] * 5, "later", *["fine"] * 2, *["gated"] * 2)
    eventually(lambda: len(job.said()) == 8 and len(job.starts(10)) == 1, what="eight saved, two running")
    killed.kill()
    job.go()
    cluster(slots=3)
    job.settled(*[DONE] * 10)
    assert [len(job.starts(n)) for n in range(1, 11)] == [1] * 5 + [2] + [1] * 2 + [2] * 2
    assert sorted(job.said()) == list(range(1, 11))


def test_job_moves_on_though_the_process_died_right_after_the_last_commit(
    cluster: StartCluster, acting_job: Submit
) -> None:
    """B10: killed between the commit of the last result and the look at what it completes."""
    cluster(slots=1)
    job = acting_job("kill-after-the-commit")
    job.settled(DONE)

    eventually(lambda: _counted(job) == 1, seconds=30, what="the next step")
    assert len(job.starts()) == 1
    assert not _lives(job.starts()[0].pid)
    with reading(job.tenant.pk):
        assert Stage.objects.filter(job_id=job.job_id, name="count").count() == 1


def _counted(job: ActingJob) -> int:
    with reading(job.tenant.pk):
        return WorkItem.objects.filter(job_id=job.job_id, stage__name="count", state=DONE.number).count()


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
