"""A backup, a job that is sent after it, and the restore: with a real ERP, real workers and the real commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connections
from django.utils import timezone

from access.models import Person, Tenant
from access.tenancy import reading
from examples import vendor_onboarding
from examples.management import sample
from examples.simulators.client import ErpControl
from examples.vendor_onboarding import VendorChange
from reconciliation.models import Case
from tests import clusters, databases
from tests.approvals.world import World
from tests.dispatch.world import Dispatching, make_worker, states
from tests.examples.test_vendor_onboarding import a_change, a_ctx, proposed
from tests.support import command, eventually
from workflows.models import Job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes]


@pytest.fixture(autouse=True)
def _own_database() -> Iterator[None]:
    with databases.own():
        yield


@pytest.fixture
def workers(erp: ErpControl, tmp_path: Path) -> Iterator[Callable[[], Any]]:
    with clusters.starting(tmp_path) as start:
        yield lambda: start(
            "examples.vendor_onboarding", workers=1, slots=4, COUNTERFOIL_ERP_URL=erp.base_url
        )


def approved(desk: Dispatching, **changes: str) -> Job:
    change = a_change(**changes)
    record = vendor_onboarding.read_current(a_ctx(desk.tenant_id), VendorChange.model_validate(change))
    job = desk.world.job(workflow=vendor_onboarding.vendor_onboarding, text=json.dumps(change))
    desk.world.freeze(job, proposed(change, record).model_dump_json())
    for manager in (desk.world.manager, desk.world.second):
        if desk.job_state(job) == "AWAITING_APPROVAL":
            desk.world.decide(desk.world.proposal(job), manager)
    assert desk.job_state(job) == "READY_TO_COMMIT"
    return job


@pytest.mark.long
def test_what_was_sent_after_the_backup_has_one_effect_though_the_backup_knows_nothing_of_it(
    erp: ErpControl, workers: Callable[[], Any], tmp_path: Path
) -> None:
    """Two approved jobs are in the backup, sent and confirmed after it, and come out of it unsent. The receiver of the one
    can be asked; of the other nobody knows."""
    loaded = sample.load(now=timezone.now(), sign_in=False)
    people = {handle: Person.objects.get(pk=pk) for handle, pk in loaded.people.items()}
    named = (sample.SUBMITTER, sample.MANAGER, sample.SECOND_MANAGER, sample.OPERATOR)
    world = World(Tenant.objects.get(pk=loaded.tenant_id), *(people[handle] for handle in named))
    desk = Dispatching(world, people[sample.ADMIN], make_worker())
    asked = approved(desk, erp="lookup")
    unasked = approved(desk, erp="neither", vendor_id="V-30502", reference="VC-2026-0413")
    command("backup", tmp_path / "backup")

    first = workers()
    for job in (asked, unasked):
        eventually(lambda j=job: desk.job_state(j) == "CONFIRMED", seconds=40, what=f"{job.label}, confirmed")
    first.stop()
    connections.close_all()
    command("restore", tmp_path / "backup", "--overwrite")
    assert states(desk, unasked) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    workers()

    eventually(lambda: desk.job_state(asked) == "CONFIRMED", seconds=40, what="confirmed by a look-up")
    opening = ("dispatch", "open", world.tenant.slug, "--as", sample.OPERATOR, "--reason", "they are called")
    with pytest.raises(CommandError, match="1 operation has no outcome and no owner"):
        command(*opening)
    assert "Dispatch of" in command(*opening, "--hand-over", sample.OPERATOR)
    later = approved(desk, erp="neither", vendor_id="V-30288", reference="VC-2026-0414")
    eventually(lambda: desk.job_state(later) == "CONFIRMED", seconds=90, what="a new job, sent")

    writes = {r["path"]: r["method"] for r in erp.requests() if r["method"] != "GET"}
    assert len([r for r in erp.requests() if r["method"] != "GET"]) == len(writes) == 3
    assert [len(erp.effects(record=v)) for v in ("V-30417", "V-30502", "V-30288")] == [1, 1, 1]
    assert states(desk, unasked) == ("NEEDS_RECONCILIATION", ["UNKNOWN"])
    with reading(desk.tenant_id):
        case = Case.objects.get(job=unasked, resolved_at__isnull=True)
    assert (case.kind, case.assignee_id) == ("unknown outcome", people[sample.OPERATOR].pk)
    command("verify_journal")
