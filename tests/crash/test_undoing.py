"""A compensation whose process is really killed between a handler's deed and its record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from access.roles import Role
from access.tenancy import reading
from examples.demos.workers import Cluster
from tests.support import eventually, install, make_person, make_tenant
from workflows import verification
from workflows.actions.retry import fail_job
from workflows.actions.submit import submit_job
from workflows.models import JournalEntry, WorkItem
from workflows.replaying import comparing, rows
from workflows.replaying.folding import fold
from workflows.states import STUCK_ITEM_STATES, ItemState

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]
WORKFLOWS = "tests.workflows.compensated"
IN_REVERSE = ["note", "part-3", "part-2", "part-1", "shelf"]


def test_undoing_goes_on_where_it_was_killed(
    cluster: Callable[..., Cluster], tmp_path: Path, settings: Any
) -> None:
    """The handler has taken part 2 away and does not return; every process is killed there, and started again."""
    install(settings, WORKFLOWS)
    tenant = make_tenant()
    submitter, operator = make_person(tenant, Role.SUBMITTER), make_person(tenant, Role.OPERATOR)
    killed = cluster(workers=2, slots=2, workflows=WORKFLOWS)
    job_id = submit_job(
        tenant_id=tenant.pk, workflow="test-keeping", value={"folder": str(tmp_path)}, submission_key="k",
        person_id=submitter.pk, source="test", now=timezone.now(),
    ).job_id  # fmt: skip

    def items(state: ItemState) -> list[str]:
        with reading(tenant.pk):
            rows = WorkItem.objects.filter(job_id=job_id, state=state.number)
            return sorted(rows.values_list("stage__name", flat=True))

    def lines(begin: str) -> list[str]:
        return [x for x in (tmp_path / "log").read_text().splitlines() if x.startswith(begin)]

    eventually(lambda: any(items(s) == ["last"] for s in STUCK_ITEM_STATES), what="the last step stopped")
    (tmp_path / "hang-part-2").touch()
    fail_job(tenant_id=tenant.pk, job_id=job_id, person_id=operator.pk, reason="No use.", now=timezone.now())
    eventually(lambda: "took part-2" in lines("took"), what="part 2 taken away")
    killed.kill()
    assert items(ItemState.COMPENSATED) == ["note", "part"]

    (tmp_path / "go").touch()
    cluster(workers=2, slots=2, workflows=WORKFLOWS)
    eventually(lambda: len(items(ItemState.COMPENSATED)) == 5, what="everything undone")

    assert [line.removeprefix("took ") for line in lines("took")] == IN_REVERSE
    assert len(lines("undo part-2")) == 2
    assert len(set(lines("undo part-2"))) == 1
    assert [len(lines(f"undo {name} ")) for name in ("note", "part-3", "part-1", "shelf")] == [1, 1, 1, 1]
    with reading(tenant.pk):
        told = JournalEntry.objects.filter(job_id=job_id, event="compensation.finished").count()
    assert told == 1
    assert verification.verify_jobs(job_id=job_id).bad is None
    with rows.snapshot(tenant.pk):
        found = rows.rows_of(job_id)
        assert comparing.compare(found, fold(found)) == []
