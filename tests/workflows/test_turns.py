"""Lanes take turns however few slots are free, and everything that is ready is claimed in a bounded number of claims.

The claims are an engine's own, made one by one: no handler runs, so that only the order of claims tells.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from access.roles import Role
from tests.dispatch.world import make_worker
from tests.support import make_person, make_tenant
from tests.workflows.test_marks import ready
from workflows.engine import marks
from workflows.engine.claiming import Claiming
from workflows.engine.connections import Connection, connect
from workflows.engine.engine import Engine
from workflows.states import ItemState

pytestmark = pytest.mark.django_db(transaction=True)
LANES = 5
READY, RUNNING, DONE = ItemState.READY.number, ItemState.RUNNING.number, ItemState.SUCCEEDED.number


@dataclass
class Process:
    """One worker's claims, and the lanes of as many tenants, by their place in the order of lanes."""

    connection: Connection
    claiming: Claiming
    lanes: list[int]

    def take(self, free: int = 1) -> list[int]:
        """The lanes of what a claim takes."""
        with self.connection.pipeline(), self.connection.transaction():
            asked = self.claiming.ask(self.connection, free, [])
        found = self.claiming.answered(asked)
        found += self.claiming.claim_limited(self.connection, asked, free - len(found))
        return [self.lanes.index(p.claim.lane_id) for p in found]

    def put(self, counts: list[int]) -> None:
        """So many items of each lane are ready; the others are done."""
        self.connection.execute(f"UPDATE workflows_workitem SET state = {DONE}, worker_id = NULL")
        for lane, count in zip(self.lanes, counts, strict=True):
            self.connection.execute(
                "UPDATE workflows_workitem SET state = %s WHERE id IN"
                " (SELECT id FROM workflows_workitem WHERE lane_id = %s ORDER BY rank, id LIMIT %s)",
                [READY, lane, count],
            )

    def give_back(self, lane: int) -> None:
        """The first item of a lane is ready again, below what was claimed since."""
        self.connection.execute(
            "UPDATE workflows_workitem SET state = %s WHERE id ="
            " (SELECT id FROM workflows_workitem WHERE lane_id = %s ORDER BY rank, id LIMIT 1)",
            [READY, self.lanes[lane]],
        )


@pytest.fixture
def process(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setattr(marks, "DEAR_SECONDS", 1e9)  # however busy this machine is
    engine = Engine(slots=1, lease_seconds=20)
    engine.worker_id = make_worker().pk
    with connect("test") as connection:
        connection.execute("UPDATE workflows_worker SET lease_until = now() + interval '1 hour'")
        for tenant in [make_tenant() for _ in range(LANES)]:
            ready(tenant, make_person(tenant, Role.SUBMITTER), 30)
        found = connection.execute(
            "SELECT DISTINCT lane_id FROM workflows_workitem ORDER BY lane_id"
        ).fetchall()
        yield Process(connection, engine.committer.claiming, [lane for (lane,) in found])


@pytest.fixture
def limited(process: Process) -> Process:
    """The same work under a limit that each tenant names."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute("UPDATE workflows_workitem SET limited = true")
        owner.execute("UPDATE workflows_lane SET name = 'model-a' WHERE id = ANY(%s)", [process.lanes])
    return process


def test_one_free_slot_at_a_time_serves_every_lane_in_turn(process: Process) -> None:
    turns = [process.take() for _ in range(3 * LANES)]
    assert turns == [[lane] for lane in range(LANES)] * 3


def test_one_free_slot_at_a_time_serves_every_lane_under_limits_in_turn(limited: Process) -> None:
    turns = [turn for _ in range(3 * LANES) if (turn := limited.take())]
    assert turns[: 2 * LANES] == [[lane] for lane in range(LANES)] * 2


def test_suspects_keep_to_their_limit_like_everything_else(limited: Process) -> None:
    """One at a time is allowed. A worker died with one of three: it waits for what runs, and the others wait for it."""
    with psycopg.connect(os.environ["DATABASE_URL"]) as owner:
        owner.execute(
            "INSERT INTO workflows_sharedlimit (name, concurrency, changed_at, changed_by, spent, average_tokens,"
            " average_cost, closed_why) VALUES ('model-a', 1, now(), 'test', 0, 0, 0, '')"
        )
    limited.put([3, 0, 0, 0, 0])
    limited.connection.execute(
        "UPDATE workflows_workitem SET deaths = 1 WHERE id ="
        " (SELECT id FROM workflows_workitem WHERE lane_id = %s ORDER BY rank, id LIMIT 1)",
        [limited.lanes[0]],
    )
    for _ in range(3):
        assert limited.take(4) == [0]
        limited.claiming.suspects_wait()
        assert limited.take(4) == []
        limited.connection.execute(
            f"UPDATE workflows_workitem SET state = {DONE}, worker_id = NULL WHERE state = {RUNNING}"
        )
        limited.claiming.limiter.look_again()
        limited.claiming.suspects_wait()
    assert limited.take(4) == []


@pytest.mark.parametrize("dear", [False, True])
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=st.lists(st.integers(0, 12), min_size=LANES, max_size=LANES),
    frees=st.lists(st.integers(1, 4), min_size=1, max_size=6),
    data=st.data(),
)
def test_whatever_is_ready_is_claimed_and_nobody_waits_for_anothers_many(
    process: Process,
    monkeypatch: pytest.MonkeyPatch,
    dear: bool,
    counts: list[int],
    frees: list[int],
    data: st.DataObject,
) -> None:
    """While every claim is dear or none is: no lane waits while the others are served more than five times each. What comes
    back below a mark is found too, once it is looked for."""
    process.put(counts)
    process.claiming.marks = marks.Marks()
    monkeypatch.setattr(marks, "DEAR_SECONDS", -1.0 if dear else 1e9)
    monkeypatch.setattr(marks, "LONGEST_SECONDS", 1e9)
    monkeypatch.setattr(marks, "PART", 1e12)  # whatever a claim takes on this machine
    monkeypatch.setattr(marks, "IDLE_PART", 1e12)
    left = list(counts)
    since = [0] * LANES
    for turn in range(sum(counts) + LANES + 4):
        served = process.take(frees[turn % len(frees)])
        assert served or not any(left)
        for lane in served:
            left[lane] -= 1
        for lane in range(LANES):
            since[lane] = 0 if lane in served or not left[lane] else since[lane] + len(served)
            assert since[lane] <= 4 * LANES
    assert left == [0] * LANES
    if dear and any(counts):
        back = data.draw(st.sampled_from([lane for lane in range(LANES) if counts[lane]]))
        process.give_back(back)
        monkeypatch.setattr(marks, "LONGEST_SECONDS", 0.0)
        assert [back] in [process.take() for _ in range(2)]


def test_what_came_back_below_a_mark_waits_for_its_lanes_turn_and_no_longer(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One slot, five busy lanes, and every second claim looks from the start: each look is at another lane."""
    monkeypatch.setattr(marks, "DEAR_SECONDS", -1.0)
    monkeypatch.setattr(marks, "LONGEST_SECONDS", 1e9)
    monkeypatch.setattr(marks, "PART", 1e12)
    monkeypatch.setattr(marks, "IDLE_PART", 1e12)
    for _ in range(2 * LANES):
        process.take()
    process.give_back(3)

    def is_claimed() -> bool:
        row = process.connection.execute(
            "SELECT state <> %s FROM workflows_workitem WHERE lane_id = %s ORDER BY rank, id LIMIT 1",
            [READY, process.lanes[3]],
        ).fetchone()
        return row == (True,)

    looks = 0
    while not is_claimed():
        process.take()
        monkeypatch.setattr(marks, "LONGEST_SECONDS", 0.0)
        process.take()
        monkeypatch.setattr(marks, "LONGEST_SECONDS", 1e9)
        looks += 1
        assert looks <= LANES
