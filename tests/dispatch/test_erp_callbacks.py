"""The simulated ERP, a process of its own, calls back over HTTP, with everything that can go wrong about it."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from access.tenancy import reading
from dispatch.models import Callback
from dispatch.presets import LATER
from examples.simulators.client import ErpControl, Running, start_erp
from tests.dispatch.calling import SECRET, public_id
from tests.dispatch.world import Dispatching
from tests.support import eventually
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
SOON = 0.01


@pytest.fixture(scope="module")
def erp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    database: Path = tmp_path_factory.mktemp("erp") / "erp.sqlite3"
    with start_erp(database=database) as running:
        yield running


@pytest.fixture
def world(erp: Running, live_server: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Dispatching, ErpControl]:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_ERP_CALLBACKS", SECRET)
    control = ErpControl(erp.base_url)
    d = Dispatching.make(erp.base_url, LATER.contract)
    address = live_server.url.replace("127.0.0.1", "localhost")
    control.call_back(f"{address}/api/v1/callbacks/{public_id(d)}", SECRET, seconds=SOON)
    return d, control


def answers_to(control: ErpControl, before: int, count: int) -> list[int | None]:
    """How the installation answered the callbacks that came since, once all of them have ended."""

    def ended() -> bool:
        rows = control.callbacks()[before:]
        return len(rows) >= count and all(row["ended"] for row in rows)

    eventually(ended, what=f"{count} callbacks")
    return [row["status"] for row in control.callbacks()[before:]]


@pytest.mark.parametrize(
    ("plan", "answered", "state", "effects", "kept"),
    [
        ("once", [200], "CONFIRMED", 1, 1),
        pytest.param("twice", [200, 200], "CONFIRMED", 1, 1, marks=pytest.mark.long),
        pytest.param("out_of_order", [200, 200], "CONFIRMED", 1, 2, marks=pytest.mark.long),
        ("early", [200], "CONFIRMED", 1, 1),
        ("wrong_signature", [401], "SUBMITTED", 1, 0),
        pytest.param("old", [401], "SUBMITTED", 1, 0, marks=pytest.mark.long),
        pytest.param("never", [], "SUBMITTED", 1, 0, marks=pytest.mark.long),
        ("rejected", [200], "FAILED", 0, 1),
        pytest.param("rejected_after", [200, 200], "CONFIRMED", 1, 2, marks=pytest.mark.long),
        pytest.param("differs", [200], "NEEDS_RECONCILIATION", 1, 1, marks=pytest.mark.long),
        pytest.param("unknown_key", [404], "SUBMITTED", 1, 1, marks=pytest.mark.long),
    ],
)
def test_each_way_of_calling_back_ends_where_it_is_proven(
    world: tuple[Dispatching, ErpControl], plan: str, answered: list[int], state: str, effects: int, kept: int
) -> None:
    d, control = world
    record = f"V-{secrets.token_hex(4)}"
    job: Job = d.ready(record, action="write-record")
    before = len(control.callbacks())
    control.plan_callbacks(plan, seconds=SOON)
    d.step(d.operation(job))
    assert answers_to(control, before, len(answered)) == answered
    eventually(lambda: len(control.effects(record=record)) == effects, what="effects")
    assert d.job_state(job) == state
    with reading(d.tenant_id):
        assert Callback.objects.count() == kept
    if state == "SUBMITTED":  # what no callback has confirmed, asking does
        d.step(d.operation(job))
        assert d.job_state(job) == "CONFIRMED"
    assert len(control.requests(path=f"/later/records/{record}")) == 1


def test_a_receiver_that_dies_after_it_has_accepted_confirms_when_it_is_back(
    live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERFOIL_RECEIVER_ERP_CALLBACKS", SECRET)
    database = tmp_path / "erp.sqlite3"
    with start_erp(database=database) as first:
        d = Dispatching.make(first.base_url, LATER.contract)
        address = live_server.url.replace("127.0.0.1", "localhost")
        ErpControl(first.base_url).call_back(
            f"{address}/api/v1/callbacks/{public_id(d)}", SECRET, seconds=0.5
        )
        job = d.ready("V-1", action="write-record")
        d.step(d.operation(job))
        assert d.job_state(job) == "SUBMITTED"
        first.kill()
    with start_erp(database=database):
        eventually(lambda: d.job_state(job) == "CONFIRMED", what="a confirmation")
