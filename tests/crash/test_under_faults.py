"""The engine as a machine that anything may happen to: Hypothesis drives jobs, people and faults, then looks at rows.

Real worker processes are killed (by their own items too), frozen past their lease, cut off and redeployed, while jobs are
submitted, held, cancelled, failed and redriven, and items are granted attempts or skipped. After each run everything has come to rest, and every promise about
rows holds. COUNTERFOIL_TEST_FAULT_SECONDS says for how long; `make bench` gives it five minutes. A
plan is drawn whole before it is run, and printed when it fails; nobody can repeat one exactly.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from django.db import OperationalError, connection
from django.utils import timezone
from hypothesis import HealthCheck, Phase, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from psycopg.errors import LockNotAvailable

from access.models import Person, Tenant
from access.refusals import Refused
from access.roles import Role
from access.tenancy import acting
from examples.demos.workers import Cluster
from tests.support import eventually, install, make_person, make_tenant
from workflows import verification
from workflows.actions.cancel import cancel_job
from workflows.actions.hold import hold_job, release_job
from workflows.actions.redrive import redrive_job
from workflows.actions.retry import fail_job, grant_attempts
from workflows.actions.skip import skip_item
from workflows.actions.submit import submit_job
from workflows.costs.spent import spending
from workflows.models import Limit
from workflows.replaying import comparing, rows
from workflows.replaying.folding import fold

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
SECONDS = float(os.environ.get("COUNTERFOIL_TEST_FAULT_SECONDS", "30"))
ACTS = ("ok", "ok", "ok", "slow", "retry", "never", "permanent", "nul", "die")
LEASE = 2.0
READY, BACKING_OFF, RUNNING, SUCCEEDED, EXHAUSTED, REFUSED = 0, 1, 2, 4, 5, 6


class Run:
    """One organisation's work on a cluster that is shared by all runs."""

    cluster: ClassVar[Cluster]
    owner: ClassVar[psycopg.Connection[Any]]
    folder: ClassVar[Path]
    happened: ClassVar[Counter[str]] = Counter()
    runs: ClassVar[int] = 0
    until: ClassVar[float]
    spared: ClassVar[list[int]]
    """Sessions of the tests themselves."""

    def __init__(self, scarce: bool) -> None:
        self.jobs: list[int] = []
        self.held: set[int] = set()
        self.frozen: list[int] = []
        self.tenant: Tenant = make_tenant()
        roles = (Role.SUBMITTER, Role.OPERATOR, Role.ADMIN)
        self.person: Person = make_person(self.tenant, *roles)
        if scarce:
            with acting(self.tenant.pk):
                Limit.objects.create(
                    tenant=self.tenant,
                    name="scarce",
                    concurrency=1,
                    changed_at=timezone.now(),
                    changed_by="test",
                )

    # -- people --------------------------------------------------------------------------------------------------
    def submit(self, workflow: str, acts: list[str]) -> None:
        deeds = [{"code": f"d{n}", "act": act} for n, act in enumerate(acts)]
        submitted = submit_job(
            tenant_id=self.tenant.pk,
            workflow=workflow,
            value={"folder": str(self.folder), "deeds": deeds},
            submission_key=secrets.token_hex(8),
            person_id=self.person.pk,
            source="tests",
            now=timezone.now(),
        )
        self.jobs.append(submitted.job_id)

    def hold(self, which: int) -> None:
        self._on_a_job(
            which, "held", lambda job: (hold_job(**self._by(job), reason="test"), self.held.add(job))
        )

    def release(self, which: int) -> None:
        self._on_a_job(which, "released", lambda job: (release_job(**self._by(job)), self.held.discard(job)))

    def cancel(self, which: int) -> None:
        self._on_a_job(which, "cancelled", lambda job: cancel_job(**self._by(job), reason="test"))

    def fail(self, which: int) -> None:
        self._on_a_job(which, "failed", lambda job: fail_job(**self._by(job), reason="test"))

    def redrive(self, attempts: int) -> None:
        """The first that has failed."""
        failed = self._rows(
            "SELECT id FROM workflows_job WHERE tenant_id = %(tenant)s AND state = 'FAILED' ORDER BY id LIMIT 1"
        )
        for (job,) in failed:
            with self._as_a_person():
                redrive_job(**self._by(job), attempts=attempts, reason="test")
                self.happened["redriven"] += 1

    def grant(self, attempts: int) -> None:
        self._on_a_stopped_item("granted", grant_attempts, attempts=attempts)

    def skip(self) -> None:
        self._on_a_stopped_item("skipped", skip_item)

    def skip_what_stops(self) -> None:
        """Wait until an item has stopped, and go on without it."""
        eventually(lambda: self._rows(STOPPED), what="an item that stopped", seconds=60)
        self.skip()

    def fail_what_stops(self) -> None:
        """Wait until an item has stopped, and give its job up."""
        (item,) = eventually(lambda: self._rows(STOPPED), what="an item that stopped", seconds=60)
        ((job,),) = self._rows(f"SELECT job_id FROM workflows_workitem WHERE id = {item[0]}")
        self.fail(self.jobs.index(job))

    # -- faults --------------------------------------------------------------------------------------------------
    def kill(self, which: int) -> None:
        self._signal(which, signal.SIGKILL, "killed")

    def freeze(self, which: int) -> None:
        """One at a time: somebody has to be awake to take over."""
        self._thaw()
        self.frozen.append(self._signal(which, signal.SIGSTOP, "frozen"))

    def outlive_a_lease(self) -> None:
        """What is frozen stays so until its lease is over by the database's clock; then it wakes up."""
        if self.frozen:
            over = "SELECT 1 FROM workflows_worker WHERE pid = ANY(%s) AND ended_at IS NULL"
            eventually(
                lambda: self.owner.execute(over, [self.frozen]).fetchone() is None,
                what="the takeover",
                seconds=30,
            )
        self._thaw()

    def cut(self, purpose: str) -> None:
        cut = self.owner.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()"
            " AND backend_type = 'client backend' AND application_name = %s AND NOT pid = ANY(%s)",
            [purpose, [*self.spared, *self._own_sessions()]],
        ).fetchone()
        self.happened["cut"] += cut[0] if cut else 0

    def redeploy(self) -> None:
        self._thaw()
        self.cluster.stop()
        self.cluster.start()
        self.happened["redeployed"] += 1

    # -- what has to hold ----------------------------------------------------------------------------------------
    def come_to_rest(self) -> None:
        self._thaw()
        for job in list(self.held):
            with contextlib.suppress(Refused):
                release_job(**self._by(job))
        if not self.jobs:
            return
        eventually(lambda: not self._moving(), what=f"everything to rest: {self._moving()}", seconds=60)
        eventually(lambda: not self._undone(), what=f"stages to close: {self._undone()}", seconds=30)
        eventually(lambda: not self._rows(UNTOLD), what="what stopped to be told", seconds=30)
        for question, statement in PROMISES.items():
            assert self._rows(statement) == [], question
        for job in self.jobs:
            assert verification.verify_jobs(job_id=job).bad is None
        self.happened["under a limit"] += len(self._rows(UNDER_A_LIMIT))
        self._folds_back()
        self._calls_fit()

    def _folds_back(self) -> None:
        """Journal and attempts fold to what is stored, and the sums of costs are those of the attempts."""
        with rows.snapshot(self.tenant.pk):
            for job in self.jobs:
                found = rows.rows_of(job)
                assert comparing.compare(found, fold(found)) == []
            ever = {"since": date(2000, 1, 1), "until": date(9999, 1, 1), "by": ("workflow", "route")}
            assert spending(**ever) == spending(**ever, anew=True)

    def _moving(self) -> list[Any]:
        return self._rows(
            "SELECT w.id, w.state, s.name FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id"
            " WHERE w.tenant_id = %(tenant)s AND w.state IN (0, 1, 2, 3) AND s.kind <> 'machine'"
        )

    def _undone(self) -> list[Any]:
        return self._rows(
            "SELECT s.job_id, s.name FROM workflows_stage s JOIN workflows_job j ON j.id = s.job_id"
            " WHERE s.tenant_id = %(tenant)s AND s.closed_at IS NULL AND s.kind NOT IN ('machine', 'propose')"
            " AND j.ended_at IS NULL AND NOT EXISTS (SELECT FROM workflows_workitem w WHERE w.stage_id = s.id"
            "   AND w.state IN (5, 6))"
        )

    def _calls_fit(self) -> None:
        """A handler is called once a claim at most, and never again for what was saved."""
        path = self.folder / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        mine = {str(job) for job in self.jobs}
        calls = Counter((job, key) for job, key, _ in map(str.split, lines) if job in mine)
        claims = {
            (str(job), key): claim_no
            for job, key, claim_no in self._rows(
                "SELECT w.job_id, w.key, w.claim_no FROM workflows_workitem w JOIN workflows_stage s"
                " ON s.id = w.stage_id WHERE w.tenant_id = %(tenant)s AND s.name = 'do'"
            )
        }
        assert {k: n for k, n in calls.items() if n > claims[k]} == {}

    def _rows(self, statement: str) -> list[Any]:
        return self.owner.execute(statement, {"tenant": self.tenant.pk}).fetchall()

    def _by(self, job: int) -> dict[str, Any]:
        return {
            "tenant_id": self.tenant.pk,
            "job_id": job,
            "person_id": self.person.pk,
            "now": timezone.now(),
        }

    def _on_a_job(self, which: int, what: str, act: Any) -> None:
        if self.jobs:
            with self._as_a_person():
                act(self.jobs[which % len(self.jobs)])
                self.happened[what] += 1

    def _on_a_stopped_item(self, what: str, act: Any, **more: Any) -> None:
        for (item,) in self._rows(STOPPED):
            with self._as_a_person():
                act(
                    tenant_id=self.tenant.pk,
                    item_id=item,
                    person_id=self.person.pk,
                    reason="test",
                    now=timezone.now(),
                    **more,
                )
                self.happened[what] += 1

    @contextlib.contextmanager
    def _as_a_person(self) -> Iterator[None]:
        """What people are refused they leave. So it is with what a frozen worker has locked: its page says that somebody is at it."""
        try:
            yield
        except Refused:
            pass
        except OperationalError as failed:
            if not isinstance(failed.__cause__, LockNotAvailable) or not self.frozen:
                raise
            self.happened["somebody was at it"] += 1

    def _signal(self, which: int, number: int, what: str) -> int:
        """To one of the workers that serve and are awake; the cluster replaces those that do not."""
        pids = eventually(self._awake, what="a worker", seconds=30)
        os.kill(pids[which % len(pids)], number)
        self.happened[what] += 1
        return pids[which % len(pids)]

    def _awake(self) -> list[int]:
        rows = self.owner.execute(
            "SELECT pid FROM workflows_worker WHERE ended_at IS NULL AND NOT pid = ANY(%s) ORDER BY id",
            [self.frozen],
        ).fetchall()
        return [pid for (pid,) in rows if Path(f"/proc/{pid}").exists()]

    def _thaw(self) -> None:
        for pid in self.frozen:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.frozen.clear()

    def _own_sessions(self) -> list[int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            return [int(cursor.fetchone()[0]), self.owner.info.backend_pid]


STOPPED = (
    "SELECT id FROM workflows_workitem WHERE tenant_id = %(tenant)s AND state IN (5, 6) ORDER BY id LIMIT 1"
)

UNTOLD = """
        SELECT w.id FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id
        WHERE w.tenant_id = %(tenant)s AND w.state IN (5, 6) AND s.need IS NULL
          AND (w.reported_at IS NULL OR NOT EXISTS (
            SELECT FROM reconciliation_case c WHERE c.job_id = w.job_id AND c.item_id = w.id AND c.resolved_at IS NULL))
"""
"""An item that stopped has its case, unless others are enough."""

UNDER_A_LIMIT = """
        SELECT a.id FROM workflows_attempt a JOIN workflows_workitem w ON w.id = a.item_id AND w.limited
        JOIN workflows_limit m ON m.tenant_id = w.tenant_id WHERE w.tenant_id = %(tenant)s"""

PROMISES = {
    "a succeeded item has one checkpoint and one attempt that succeeded": """
        SELECT w.id FROM workflows_workitem w JOIN workflows_stage s ON s.id = w.stage_id
        WHERE w.tenant_id = %(tenant)s AND s.kind <> 'machine' AND w.state = 4
          AND ((SELECT count(*) FROM workflows_checkpoint c WHERE c.item_id = w.id) <> 1
            OR (SELECT count(*) FROM workflows_attempt a WHERE a.item_id = w.id AND a.outcome = 'succeeded') <> 1)""",
    "nothing else has a checkpoint": """
        SELECT w.id FROM workflows_workitem w JOIN workflows_checkpoint c ON c.item_id = w.id
        WHERE w.tenant_id = %(tenant)s AND w.state NOT IN (4, 9)""",
    "a claim ends once": """
        SELECT a.item_id, a.claim_no FROM workflows_attempt a WHERE a.tenant_id = %(tenant)s AND a.outcome <> 'stale'
        GROUP BY a.item_id, a.claim_no HAVING count(*) > 1""",
    "no more attempts than allowed": """
        SELECT id FROM workflows_workitem WHERE tenant_id = %(tenant)s AND attempts > attempts_limit""",
    "what runs has a worker that lives": """
        SELECT w.id FROM workflows_workitem w LEFT JOIN workflows_worker k ON k.id = w.worker_id
        WHERE w.tenant_id = %(tenant)s AND w.state = 2 AND (k.id IS NULL OR k.ended_at IS NOT NULL)""",
    "no more run under a limit than it says": """
        SELECT a.id, count(*) FROM workflows_attempt a
        JOIN workflows_workitem w ON w.id = a.item_id AND w.limited JOIN workflows_lane l ON l.id = abs(w.lane_id)
        JOIN workflows_limit m ON m.tenant_id = w.tenant_id AND m.name = l.name
        JOIN workflows_workitem v ON v.limited AND v.tenant_id = w.tenant_id AND abs(v.lane_id) = l.id
        JOIN workflows_attempt o ON o.item_id = v.id AND o.started_at <= a.started_at AND a.started_at < o.ended_at
        WHERE w.tenant_id = %(tenant)s AND a.outcome <> 'stale' AND o.outcome <> 'stale'
        GROUP BY a.id, m.concurrency HAVING count(*) > m.concurrency""",
    "a closed stage has what it needs": """
        SELECT s.id, s.name FROM workflows_stage s JOIN workflows_job j ON j.id = s.job_id
        WHERE s.tenant_id = %(tenant)s AND s.closed_at IS NOT NULL AND s.kind <> 'machine' AND j.ended_at IS NULL
          AND (SELECT count(*) FROM workflows_workitem w WHERE w.stage_id = s.id AND w.state IN (4, 7))
            < coalesce(s.need, s.total)""",
    "a stage opens after the one before has closed": """
        SELECT later.id FROM workflows_stage later JOIN workflows_stage s
          ON s.job_id = later.job_id AND s.ordinal = later.ordinal - 1 AND s.kind <> 'machine'
        WHERE later.tenant_id = %(tenant)s AND later.kind <> 'machine' AND s.closed_at IS NULL""",
    "what a fan-out gave is what the next step got, in input order": """
        SELECT s.job_id FROM workflows_stage s JOIN workflows_workitem i ON i.stage_id = s.id
        JOIN workflows_checkpoint c ON c.item_id = i.id
        WHERE s.tenant_id = %(tenant)s AND s.name = 'count' AND c.output::json ->> 'codes' IS DISTINCT FROM (
          SELECT '[' || coalesce(string_agg('"' || w.key || '"', ',' ORDER BY w.ordinal), '') || ']'
          FROM workflows_workitem w JOIN workflows_stage d ON d.id = w.stage_id
          WHERE d.job_id = s.job_id AND d.name = 'do' AND w.state = 4)""",
}


_steps = st.one_of(
    st.tuples(
        st.just("submit"),
        st.sampled_from(["unruly-all", "unruly-all", "unruly-some", "unruly-first", "unruly-limited"]),
        st.lists(st.sampled_from(ACTS), max_size=9),
    ),
    st.tuples(st.sampled_from(["hold", "release", "cancel", "fail", "kill", "freeze"]), st.integers(0, 99)),
    st.tuples(st.sampled_from(["grant", "redrive"]), st.integers(1, 3)),
    st.tuples(st.just("skip")),
    st.tuples(st.just("cut"), st.sampled_from(["counterfoil committer", "counterfoil liveness", ""])),
    st.tuples(st.sampled_from(["outlive_a_lease", "redeploy"])),
)


_EACH_FAULT_ONCE: list[tuple[Any, ...]] = [
    ("submit", "unruly-limited", ["slow", "retry", "never", "ok"]),
    ("kill", 0),
    ("hold", 1),
    ("freeze", 0),
    ("submit", "unruly-first", ["slow", "slow", "ok"]),
    ("cut", "counterfoil committer"),
    ("outlive_a_lease",),
    ("cut", "counterfoil liveness"),
    ("release", 1),
    ("cut", ""),
    ("redeploy",),
    ("grant", 1),
    ("submit", "unruly-all", ["permanent", "slow", "die"]),
    ("fail_what_stops",),
    ("redrive", 1),
    ("skip_what_stops",),
]


@hypothesis_settings(
    max_examples=12,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@example(scarce=True, steps=_EACH_FAULT_ONCE)
@given(scarce=st.booleans(), steps=st.lists(_steps, min_size=1, max_size=25))
def whatever_happens(scarce: bool, steps: list[tuple[Any, ...]]) -> None:
    """One run: everything is drawn beforehand, since what happens in it is nobody's to repeat."""
    if Run.runs and time.monotonic() > Run.until:
        return
    run = Run(scarce)
    run.submit("unruly-all", ["ok", "slow", "retry"])
    for name, *given_to_it in steps:
        getattr(run, name)(*given_to_it)
    run.come_to_rest()
    Run.runs += 1


def test_whatever_happens_every_promise_about_rows_holds(
    settings: Any, tmp_path: Path, transactional_db: None
) -> None:
    install(settings, "tests.crash.unruly")
    Run.folder = tmp_path
    Run.happened.clear()
    Run.cluster = Cluster(
        environment={
            "DATABASE_URL": os.environ["DATABASE_URL"],
            "COUNTERFOIL_WORKFLOWS": "tests.crash.unruly",
            "COUNTERFOIL_WORKERS": "2",
            "COUNTERFOIL_SLOTS": "3",
            "COUNTERFOIL_LEASE_SECONDS": str(LEASE),
        },
        log=tmp_path / "workers.log",
    )
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        Run.spared = [pid for (pid,) in owner.execute("SELECT pid FROM pg_stat_activity").fetchall()]
    Run.cluster.start()
    Run.until = time.monotonic() + SECONDS
    try:
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as Run.owner:
            while time.monotonic() < Run.until or not Run.runs:
                whatever_happens()
    finally:
        Run.cluster.stop()
    print(f"{Run.runs} runs: {dict(Run.happened)}")
    happens = ("killed", "frozen", "cut", "redeployed", "skipped", "failed", "redriven", "under a limit")
    assert min(Run.happened[what] for what in happens) > 0
