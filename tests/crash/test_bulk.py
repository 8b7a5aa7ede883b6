"""A bulk whose workers are really killed while they do it: every entry is done once all the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from access.tenancy import acting, reading
from examples.demos.workers import Cluster
from reconciliation.models import Bulk, BulkEntry
from tests.reconciliation.floor import Floor
from tests.support import eventually, install
from workflows import verification
from workflows.models import JournalEntry

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.processes, pytest.mark.long]
WORKFLOWS = "tests.workflows.mending"
ITEMS = 400


def test_a_bulk_goes_on_where_its_workers_were_killed(cluster: Callable[..., Cluster], settings: Any) -> None:
    """Killed twice while entries are being done; each has one line in the journal and one result."""
    install(settings, WORKFLOWS)
    floor = Floor.make()
    job_id, items = floor.stopped(*["ValueError"] * ITEMS)
    bulk_id = floor.plan("skip")
    floor.confirm(bulk_id)

    def done() -> int:
        with reading(floor.tenant.pk):
            return BulkEntry.objects.filter(bulk=bulk_id, state="done").count()

    for _ in range(2):
        workers, before = cluster(workers=2, slots=2, workflows=WORKFLOWS), done()
        eventually(lambda before=before: done() > before + 20, seconds=30, what="some entries")  # type: ignore[misc]
        workers.kill()
        assert done() < ITEMS
        with acting(floor.tenant.pk):
            Bulk.objects.filter(pk=bulk_id).update(worked_until=None)  # ten seconds are long in a test
    cluster(workers=2, slots=2, workflows=WORKFLOWS)
    eventually(lambda: floor.bulk(bulk_id).state == "finished", seconds=60, what="the bulk's end")

    with reading(floor.tenant.pk):
        told = JournalEntry.objects.filter(job_id=job_id, event="item.skipped").count()
    assert Counter(state for _, state in floor.results(bulk_id)) == {"done": ITEMS}
    assert told == ITEMS == len(items)
    assert len(floor.told("bulk.finished")) == 1
    assert verification.verify_jobs(job_id=job_id).bad is None
