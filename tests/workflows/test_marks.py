"""Claims while somebody's old snapshot keeps every dead row: they go on from where they were, and miss nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from access.models import Person, Tenant
from access.roles import Role
from access.tenancy import acting
from tests.dispatch.world import make_worker
from tests.support import eventually, make_person, make_tenant
from tests.workflows import definitions
from tests.workflows.test_engine import items, submit
from workflows.claims import Claim
from workflows.engine import marks, rows, sql
from workflows.engine.connections import Connection, connect, plan_by_index
from workflows.engine.engine import Engine
from workflows.engine.marks import Marks
from workflows.engine.outcomes import Result
from workflows.models import AttemptOutcome, Lane, Worker, WorkItem
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
DEAR = 60.0
"""Seconds: as if each claim had taken a minute."""


@dataclass
class Claims:
    """One process's claims, and its marks."""

    connection: Connection
    worker: int
    marks: Marks = field(default_factory=Marks)

    def take(self, free: int, *, from_start: bool) -> list[Claim]:
        statement = sql.CLAIM if from_start else sql.CLAIM_ON
        with self.connection.transaction():
            found = self.connection.execute(statement, self._parameters(free)).fetchall()
        taken = [p.claim for p in rows.pinned(found, worker_id=self.worker, worker_name="w")]
        ranked = zip((row[rows.RANK] for row in found), taken, strict=False)
        self.marks.claimed(ranked, took=DEAR, from_start=from_start, idle=False)
        return taken

    def pages(self, *, from_start: bool) -> int:
        """How many pages a claim looks at."""
        statement = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql.CLAIM if from_start else sql.CLAIM_ON}"
        with self.connection.transaction(force_rollback=True):
            row = self.connection.execute(statement, self._parameters(8)).fetchone()
        assert row is not None
        plan = row[0][0]["Plan"]
        return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])

    def plan_of_recording(self, taken: list[Claim]) -> list[str]:
        now = datetime.now(UTC)
        results = [
            Result(
                claim=claim, outcome=AttemptOutcome.SUCCEEDED, state=ItemState.SUCCEEDED, started_at=now, ended_at=now,
                output="{}", digest="d",
            )
            for claim in taken
        ]  # fmt: skip
        values = rows.complete_parameters(results, worker_id=self.worker, worker_name="w")
        return [row[0] for row in self.connection.execute(f"EXPLAIN {sql.COMPLETE}", values).fetchall()]

    def plan(self, statement: str) -> list[str]:
        with self.connection.transaction(force_rollback=True):
            return [
                row[0]
                for row in self.connection.execute(f"EXPLAIN {statement}", self._parameters(8)).fetchall()
            ]

    def _parameters(self, free: int) -> dict[str, Any]:
        plain = {"cursor": 0, "lanes": 32, "free": free, "worker": self.worker, "apart": []}
        return {**plain, **self.marks.parameters()}


@pytest.fixture
def claims(transactional_db: None) -> Iterator[Claims]:
    with plan_by_index(connect("test")) as connection:
        yield Claims(connection, make_worker().pk)


@pytest.fixture
def old_snapshot(transactional_db: None) -> Iterator[None]:
    with psycopg.connect(os.environ["DATABASE_URL"]) as holding:
        holding.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holding.execute("SELECT count(*) FROM workflows_workitem")
        yield


def ready(tenant: Tenant, person: Person, count: int) -> list[int]:
    """So many items of a job that may be claimed, in the order in which they are."""
    job_id = submit(tenant, person)
    with acting(tenant.pk):
        (first,) = WorkItem.objects.filter(job_id=job_id)
        WorkItem.objects.bulk_create(
            WorkItem(
                tenant=tenant, job_id=job_id, stage_id=first.stage_id, key=f"r{n}", lane_id=first.lane_id,
                rank=n, state=ItemState.READY.number,
            )
            for n in range(1, count)
        )  # fmt: skip
        made = WorkItem.objects.filter(job_id=job_id).order_by("rank", "pk")
        return list(made.values_list("pk", flat=True))


def test_claim_from_the_marks_does_not_step_over_what_was_claimed(
    old_snapshot: None, claims: Claims, tenant: Tenant, submitter: Person
) -> None:
    """Every item once and in order; and what a claim looks at does not grow with what is done."""
    waiting = ready(tenant, submitter, 3000)
    taken = claims.take(100, from_start=True)
    few = claims.pages(from_start=False)
    for _ in range(10):
        taken += claims.take(250, from_start=False)
    assert sorted(c.item_id for c in taken) == waiting[:2600]
    assert claims.pages(from_start=False) <= few + 30
    assert claims.pages(from_start=True) > few + 80


def test_a_claim_looks_up_its_jobs_by_their_keys_though_there_was_one_when_they_were_counted(
    claims: Claims, tenant: Tenant, submitter: Person
) -> None:
    """What was counted last says nothing of the many that came since, and a session keeps its plan."""
    ready(tenant, submitter, 20)
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
        owner.execute("VACUUM ANALYZE workflows_job, workflows_stage, workflows_lane")
    for statement in (sql.CLAIM, sql.CLAIM_ON):
        plan = claims.plan(statement)
        for table in ("job", "stage", "lane"):
            (n,) = [n for n, line in enumerate(plan) if f" on workflows_{table} " in line]
            assert "Index Scan" in plan[n], plan[n]
            assert f"(id = taken.{table}_id)" in plan[n + 1], plan[n : n + 2]
            by_key = f"workflows_{table}_pkey" in plan[n] or "(tenant_id = taken.tenant_id)" in plan[n + 1]
            assert by_key, plan[n : n + 2]


def test_lane_without_a_mark_is_found_beside_lanes_that_have_one(
    claims: Claims, tenant: Tenant, submitter: Person
) -> None:
    others = [make_tenant() for _ in range(2)]
    ready(tenant, submitter, 20)
    claims.take(8, from_start=True)
    made = {one.pk: ready(one, make_person(one, Role.SUBMITTER), 1) for one in others}
    found = claims.take(12, from_start=False) + claims.take(12, from_start=False)
    assert {c.item_id for c in found if c.tenant_id in made} == {pk for pks in made.values() for pk in pks}
    assert [c.tenant_id for c in found].count(tenant.pk) == 12


def test_what_came_back_below_a_mark_is_found_from_the_start(
    claims: Claims, tenant: Tenant, submitter: Person
) -> None:
    waiting = ready(tenant, submitter, 20)
    claims.take(8, from_start=True)
    claims.connection.execute("UPDATE workflows_workitem SET state = 0 WHERE id = %s", [waiting[2]])
    assert waiting[2] not in [c.item_id for c in claims.take(4, from_start=False)]
    assert claims.take(1, from_start=True)[0].item_id == waiting[2]
    # The mark has gone back with it, and goes on from there over what is left. A claim's own rows have no order.
    assert sorted(c.item_id for c in claims.take(20, from_start=False)) == waiting[12:]


def test_marks_are_used_only_while_the_start_is_dear_and_never_for_long() -> None:
    found = Marks()
    assert found.look_from_start()
    found.claimed([], took=0.001, from_start=True, idle=False)
    assert found.look_from_start()
    found.claimed([], took=0.02, from_start=True, idle=False)
    assert not found.look_from_start()
    eventually(found.look_from_start, seconds=marks.LONGEST_SECONDS, what="a look from the start")
    found.claimed([], took=0.001, from_start=True, idle=False)
    assert found.look_from_start()


def test_recording_results_finds_them_by_key_and_not_among_what_was_recorded(
    claims: Claims, tenant: Tenant, submitter: Person
) -> None:
    """The index of what runs keeps an entry of each result before as long as somebody's snapshot is older."""
    ready(tenant, submitter, 200)
    taken = claims.take(64, from_start=True)
    plan = "\n".join(claims.plan_of_recording(taken))
    assert "using workflows_workitem_pkey on workflows_workitem i" in plan
    assert "item_running" not in plan


def test_renewing_a_lease_touches_no_item(tenant: Tenant, submitter: Person) -> None:
    """It is on the worker's narrow row: an item that runs for long leaves no dead version with each renewal."""
    definitions.GATE.clear()
    engine = Engine(slots=1, lease_seconds=1)
    engine.start_threads()
    try:
        job_id = submit(tenant, submitter, acts=["gate"])
        eventually(lambda: items(tenant, job_id) == [("1", ItemState.RUNNING, 1)], what="it to run")
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as owner:
            versions = "SELECT id, xmin::text, ctid::text FROM workflows_workitem ORDER BY id"
            before, leases = owner.execute(versions).fetchall(), {_lease(engine)}

            def renewed_twice() -> bool:
                leases.add(_lease(engine))
                return len(leases) > 2

            eventually(renewed_twice, what="two renewals")
            assert owner.execute(versions).fetchall() == before
    finally:
        definitions.GATE.set()
        engine.request_stop()
        engine.join()


def _lease(engine: Engine) -> datetime:
    return Worker.objects.values_list("lease_until", flat=True).get(pk=engine.worker_id)


def test_jobs_come_to_their_end_while_every_claim_is_dear(
    monkeypatch: pytest.MonkeyPatch, tenant: Tenant, submitter: Person
) -> None:
    """Fan-outs, retries, steps that follow in a lane whose marks are ahead, and a second job in the empty lane."""
    monkeypatch.setattr(marks, "DEAR_SECONDS", -1.0)
    monkeypatch.setattr(marks, "PART", 1e6)
    monkeypatch.setattr(marks, "IDLE_PART", 1e6)
    monkeypatch.setattr(marks, "LONGEST_SECONDS", 1.0)
    engine = Engine(slots=4, lease_seconds=20)
    engine.start_threads()
    try:
        for key in ("one", "two"):
            job_id = submit(tenant, submitter, key=key, acts=[*"abcdefgh", "once"])
            eventually(
                lambda job_id=job_id: items(tenant, job_id, "propose") == [("1", ItemState.SUCCEEDED, 1)],
                what=f"the end of job {key}",
            )
            assert {attempts for _, _, attempts in items(tenant, job_id)} == {1, 2}
    finally:
        engine.request_stop()
        engine.join()
    with acting(tenant.pk):
        assert Lane.objects.filter(tenant=tenant).exists()
