"""The three preset contracts against the real simulated ERP, a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dispatch.authoring import find_record, read_record
from dispatch.presets import PRESETS
from examples.simulators.client import ErpControl, Running, start_erp
from tests.dispatch.world import Dispatching
from workflows.authoring import Ctx, Permanent, Retryable
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture(scope="module")
def erp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    database: Path = tmp_path_factory.mktemp("erp") / "erp.sqlite3"
    with start_erp(database=database) as running:
        yield running


def ready(erp: Running, preset: str) -> tuple[Dispatching, Job, ErpControl]:
    control = ErpControl(erp.base_url)
    control.clear_faults()
    d = Dispatching.make(erp.base_url, PRESETS[preset].contract)
    return d, d.ready("V-30417", action="update-vendor"), control


@pytest.mark.parametrize(
    ("preset", "fault", "state", "effects"),
    [
        ("keyed", None, "CONFIRMED", 1),
        ("keyed", "drop_after_commit", "CONFIRMED", 1),
        ("keyed", "drop_before_read", "CONFIRMED", 1),
        ("keyed", "malformed", "CONFIRMED", 1),
        ("keyed", "empty_201", "CONFIRMED", 1),
        ("keyed", "accepted_202", "CONFIRMED", 1),
        ("keyed", "status_503", "CONFIRMED", 1),
        ("keyed", "status_429", "CONFIRMED", 1),
        ("keyed", "differs", "NEEDS_RECONCILIATION", 1),
        ("lookup", "drop_after_commit", "CONFIRMED", 1),
        ("lookup", "html_200", "SUBMITTED", 0),
        ("neither", None, "CONFIRMED", 1),
        ("neither", "drop_after_commit", "NEEDS_RECONCILIATION", 1),
        ("neither", "reset", "NEEDS_RECONCILIATION", 0),
        ("neither", "status_429", "CONFIRMED", 1),
    ],
)
def test_each_contract_ends_where_it_can_be_known(
    erp: Running, preset: str, fault: str | None, state: str, effects: int
) -> None:
    d, job, control = ready(erp, preset)
    before = len(control.effects())
    if fault is not None:
        control.set_fault(fault)
    d.run(job, steps=4)
    assert d.job_state(job) == state
    assert len(control.effects()) - before == effects


def test_a_workflow_reads_a_record_through_the_same_client(erp: Running) -> None:
    d, job, control = ready(erp, "keyed")
    ctx = Ctx(tenant_id=d.tenant_id, job_id=job.pk, reference="", item_key="1", attempt=1, request_key="k")
    assert read_record(ctx, receiver="erp", path="/keyed/vendors/V-30288")["record"] == "V-30288"
    with pytest.raises(Permanent, match="404"):
        read_record(ctx, receiver="erp", path="/keyed/vendors/V-0")
    assert find_record(ctx, receiver="erp", path="/keyed/records/R-0") is None
    with pytest.raises(Permanent, match="not below"):
        read_record(ctx, receiver="erp", path="/keyed/../effects.json")
    control.set_fault("status_503", method="GET")
    with pytest.raises(Retryable):
        read_record(ctx, receiver="erp", path="/keyed/vendors/V-30288")
